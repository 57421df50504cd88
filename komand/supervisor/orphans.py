"""Descendants whose parents have ended: they become children of the supervisor, which removes those that end.

Elsewhere than on Linux they become children of the system's first process.
"""

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress

_PR_SET_CHILD_SUBREAPER = 36
# Longer than a process that the supervisor waits for stays a zombie.
_PAUSE_SECONDS = 1.0


@contextmanager
def adopted(own: Callable[[], Container[int]]) -> Iterator[None]:
    """Adopt orphans, as the fork server's workers are, until the end of the block.

    own: returns the ids of the processes that the supervisor waits for elsewhere.
    """
    loop = asyncio.get_running_loop()
    timer: list[asyncio.TimerHandle] = []

    def reap() -> None:
        timer.clear()
        if not _reap(own()):
            reap_later()

    def reap_later() -> None:
        if not timer:
            timer.append(loop.call_later(_PAUSE_SECONDS, reap))

    _set_subreaper(True)
    loop.add_signal_handler(signal.SIGCHLD, reap_later)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGCHLD)
        _set_subreaper(False)
        for handle in timer:
            handle.cancel()


def _reap(own: Container[int]) -> bool:
    """Remove children that have ended, up to the first one in `own`. Returns whether there was none of those."""
    with suppress(ChildProcessError):  # no child at all
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid in own:
                return False
            os.waitpid(ended.si_pid, os.WNOHANG)
    return True


def _set_subreaper(is_one: bool) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(is_one))
