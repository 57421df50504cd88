"""The child's side of systemd's notify protocol (sd_notify(3)), and the end of a process with its parent."""

import ctypes
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

_PR_SET_PDEATHSIG = 1
# The supervisor may have ended by now, and another process be the parent.
STARTED_BY = int(os.environ.get("KOMAND_SUPERVISOR_PID") or os.getppid())


def notify_ready() -> None:
    """Send READY=1. Does nothing without NOTIFY_SOCKET."""
    _notify("READY=1")


def notify_alive() -> None:
    """Send WATCHDOG=1 once, for a process that calls it each second."""
    _notify("WATCHDOG=1")


def request_sockets() -> None:
    """Ask the supervisor for the process `sockets`. systemd ignores the message."""
    _notify("X_KOMAND_SOCKETS=1")


def show_life(is_stuck: Callable[[], bool]) -> None:
    """Send WATCHDOG=1 periodically if the parent asks for it (WATCHDOG_USEC), and exit when the parent ends, which only
    Linux does by itself. is_stuck: checked each time; nothing is sent while it returns True."""
    if os.environ.get("WATCHDOG_USEC"):
        threading.Thread(target=_show_life, args=(is_stuck,), name="watchdog", daemon=True).start()


def _show_life(is_stuck: Callable[[], bool]) -> None:
    while os.getppid() == STARTED_BY:
        if not is_stuck():
            notify_alive()
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)


def _notify(message: str) -> None:
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.setblocking(False)
        notify.connect("\0" + address[1:] if address.startswith("@") else address)
        notify.send(f"{message}\nMAINPID={os.getpid()}".encode())


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends (PR_SET_PDEATHSIG)."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before the line above
            os.kill(os.getpid(), signal.SIGKILL)
    else:
        threading.Thread(target=_watch, args=(parent,), name="parent-watch", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)


def end_after(seconds: float) -> None:
    """Kill this process after some seconds if it has not ended by then: the limit of a drain that hangs."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL))
    timer.daemon = True
    timer.start()
