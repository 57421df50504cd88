#!/usr/bin/env python
"""The entry: `manage.py up` and `status` run without Django, everything else is a Django command."""

import os
import sys


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "komand.settings.web")
    if len(sys.argv) > 1 and sys.argv[1] in ("up", "status"):
        from komand.supervisor import cli

        return cli.main(sys.argv[1:])
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
    return 0


if __name__ == "__main__":
    sys.exit(main())
