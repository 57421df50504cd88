"""The command line: `up`, `status` and `restart` run without Django; all others are Django commands."""

import os
import sys
from importlib import import_module


def main() -> int:
    """Run the command of this process's arguments and return its exit code."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "komand.settings.web")
    if len(sys.argv) > 1 and sys.argv[1] in ("up", "status", "restart"):
        try:
            code: int = import_module("komand.supervisor.cli").main(sys.argv[1:])
            return code
        except KeyboardInterrupt:  # before or after `up` listens to it: there is nothing to tell
            return 130
    try:
        management = import_module("django.core.management")
    except ImportError:
        sys.exit("komand: Django is not installed in this Python; run `make install` and use .venv/bin/python")
    management.execute_from_command_line(sys.argv)
    return 0
