"""Starts a command that ends with its parent: `parent_death.py SUPERVISOR_PID SIGNAL COMMAND…`.

A script without imports of ours, which replaces itself by the command (`exec`). Only Linux can tie a process to its
parent; elsewhere Python processes check it themselves (komand.sd_notify).
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    supervisor, number, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != supervisor:  # it died before the line above
        sys.exit(1)
    os.execv(command[0], command)  # noqa: S606 - the supervisor's own command line


if __name__ == "__main__":
    main()
