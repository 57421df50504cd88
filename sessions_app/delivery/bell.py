"""Rings for the senders when there is something to send. The rows are the truth; a lost ring costs a second."""

from collections.abc import Callable

from django.db import transaction

from audit_app.kernel import nudge

TASK = "sessions.send_deliveries"
QUEUE = "runs"

_listeners: list[Callable[[], None]] = []


def listen(ring: Callable[[], None]) -> None:
    """ring: wakes a sender of this process; callable from any thread."""
    _listeners.append(ring)


def unlisten(ring: Callable[[], None]) -> None:
    if ring in _listeners:
        _listeners.remove(ring)


def ring() -> None:
    """After commit, wake this process's sender, or one elsewhere if it has none."""
    transaction.on_commit(ring_now, robust=True)


def ring_now() -> None:
    if not wake_here():
        nudge.send(TASK, (), queue=QUEUE)


def wake_here() -> bool:
    """Wake this process's senders; False if it has none."""
    for wake in list(_listeners):
        wake()
    return bool(_listeners)
