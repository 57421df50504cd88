"""The command line: `up`, `status`, `restart` and `sockets` run without Django; all others are Django commands."""

import os
import sys
from importlib import import_module
from typing import Any


def main() -> int:
    """Run the command of this process's arguments and return its exit code."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "komand.settings.web")
    if len(sys.argv) > 1 and sys.argv[1] in ("up", "status", "restart"):
        try:
            code: int = _imported("komand.supervisor.cli").main(sys.argv[1:])
            return code
        except KeyboardInterrupt:  # before or after `up` listens to it: there is nothing to tell
            return 130
    if sys.argv[1:2] == ["sockets"]:
        ended: int = _imported("komand.sockets").main(sys.argv[2:])
        return ended
    _imported("django.core.management").execute_from_command_line(sys.argv)
    return 0


def _imported(module: str) -> Any:
    """Return a module. Exits with one line if a package is missing."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        problem = f"the package {error.name} is not installed in this Python"
        sys.exit(f"komand: {problem}; run `make install` and use .venv/bin/python")
