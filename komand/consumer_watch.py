"""The watch on the consumer of a worker: its loop must run, and it connects again at most once a second."""

import time
from typing import Any

from celery import bootsteps
from celery.concurrency.prefork import TaskPool
from redis.exceptions import RedisError

from audit_app.kernel import valkey

_PULSE_SECONDS = 1.0
_STUCK_SECONDS = 2.0
_PAUSE_SECONDS = 1.0

_pulsed_at: float | None = None  # None: the loop is not to run now


def is_stuck() -> bool:
    """Return whether the loop that takes tasks hangs, although Valkey answers: it may wait for a Valkey that hangs."""
    pulsed_at = _pulsed_at
    if pulsed_at is None or time.monotonic() - pulsed_at < _STUCK_SECONDS:
        return False
    try:
        valkey.sync_client().ping()
    except RedisError:
        return False
    return _pulsed_at == pulsed_at


def end() -> None:
    """End the watch: the worker shuts down, and its loop with it."""
    global _pulsed_at
    _pulsed_at = None


def _pulse() -> None:
    global _pulsed_at
    _pulsed_at = time.monotonic()


class WatchStep(bootsteps.StartStopStep):
    """Starts the pulse with each connection. A solo pool has none: its loop stands still while it executes a task."""

    requires = ("celery.worker.consumer.connection:Connection",)

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self._has_pulse = parent.hub is not None and isinstance(parent.pool, TaskPool)
        self._stopped_at = float("-inf")

    def start(self, parent: Any) -> None:
        if self._has_pulse:
            parent.hub.call_repeatedly(_PULSE_SECONDS, _pulse)

    def stop(self, parent: Any) -> None:
        end()
        # A Valkey that is read-only or full accepts the next connection, and refuses the next command at once.
        time.sleep(max(self._stopped_at + _PAUSE_SECONDS - time.monotonic(), 0))
        self._stopped_at = time.monotonic()
