#!/usr/bin/env python
"""The entry point: `manage.py up`, `status` and `restart` run without Django; all others are Django commands."""

import os
import sys

if sys.version_info < (3, 11):  # noqa: UP036 - said here, before anything newer is imported
    sys.exit("komand: Python 3.11 or newer is needed; this is " + sys.version.split()[0])


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "komand.settings.web")
    if len(sys.argv) > 1 and sys.argv[1] in ("up", "status", "restart"):
        try:
            from komand.supervisor import cli  # noqa: PLC0415 - runs without Django

            return cli.main(sys.argv[1:])
        except KeyboardInterrupt:  # before or after `up` listens to it: there is nothing to tell
            return 130
    try:
        from django.core.management import execute_from_command_line  # noqa: PLC0415
    except ImportError:
        sys.exit("komand: Django is not installed in this Python; run `make install` and use .venv/bin/python")
    execute_from_command_line(sys.argv)
    return 0


if __name__ == "__main__":
    sys.exit(main())
