"""Runs Python as on a kernel without Landlock, namespaces and seccomp filters.

Use: `python -m tests.support.weaker_kernel ARGUMENTS` with the arguments of Python. A filter of this process and its
children refuses the calls that set these up.
"""

import ctypes
import errno
import os
import sys

from tools_app.sandbox.system_calls import _SECCOMP_FILTER, _Filter, _Instruction

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP = 38, 22
_LOAD, _IS, _RETURN, _ALLOW, _FAIL = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050000
# landlock_create_ruleset, unshare, seccomp and prctl on x86-64 and ARM64.
_NUMBERS = {"x86_64": (444, 272, 317, 157), "aarch64": (444, 97, 277, 167)}


def weaken() -> None:
    """Take the features away from this process for ever."""
    libc = ctypes.CDLL(None, use_errno=True)
    *missing, prctl = _NUMBERS[os.uname().machine]
    steps = [(_LOAD, 0, 0, 0)]
    for number in missing:
        steps += [(_IS, 0, 1, number), (_RETURN, 0, 0, _FAIL | errno.ENOSYS)]
    steps += [
        (_IS, 0, 3, prctl),
        (_LOAD, 0, 0, 16),
        (_IS, 0, 1, _PR_SET_SECCOMP),
        (_RETURN, 0, 0, _FAIL | errno.EINVAL),
    ]
    steps.append((_RETURN, 0, 0, _ALLOW))
    whole = _Filter(len(steps), (_Instruction * len(steps))(*(_Instruction(*step) for step in steps)))
    assert libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.prctl(_PR_SET_SECCOMP, _SECCOMP_FILTER, ctypes.byref(whole), 0, 0) == 0


if __name__ == "__main__":
    weaken()
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
