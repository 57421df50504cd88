"""Runs a server's command so that it ends with the process that started it: `launcher.py PARENT COMMAND…`.

A script that the command replaces. Only Linux can tie a process to its parent; elsewhere, a server whose parent has
died ends at the end of its input.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before the call above
            sys.exit(1)
    try:
        os.execvp(command[0], command)  # noqa: S606 - the operator's own command line
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be run: {error.strerror}\n")
        sys.exit(127)


if __name__ == "__main__":
    main()
