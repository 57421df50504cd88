#!/usr/bin/env python
"""The command line of a checkout; an installed package has the program `komand` instead."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - said here, before anything newer is imported
    sys.exit("komand: Python 3.11 or newer is needed; this is " + sys.version.split()[0])

from komand.command_line import main

if __name__ == "__main__":
    sys.exit(main())
