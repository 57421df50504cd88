"""This process's own life: its id, its mark, and the daemon thread that beats each second."""

import asyncio
import logging
import os
import threading
import time
from uuid import UUID

from audit_app.kernel.ids import new_id
from audit_app.liveness.process_marks import ProcessView
from audit_app.liveness.store import installed_marks

logger = logging.getLogger(__name__)

_BEAT_SECONDS = 1.0
_PULSE_SECONDS = 0.5
# An event loop that has not moved for so long hangs: nothing that this process holds gets on.
_STUCK_SECONDS = 3.0


class _Life:
    def __init__(self, name: str) -> None:
        self.id = new_id()
        self.mark = installed_marks().open(self.id, name)
        self.pulsed_at: float | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="liveness", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self.mark.close()

    @property
    def is_stuck(self) -> bool:
        return self.pulsed_at is not None and time.monotonic() - self.pulsed_at > _STUCK_SECONDS

    def _beat(self) -> None:
        count, failed, was_stuck = 0, False, False
        while not self._stopping.wait(_BEAT_SECONDS):
            if self.is_stuck:
                if not was_stuck:
                    logger.error("the event loop of this process stands still; it will be taken for hung")
                was_stuck = True
                continue
            was_stuck = False
            count += 1
            try:
                self.mark.beat(count)
            except Exception as error:  # whatever it is, a process that lives must not stop saying so
                if not failed:
                    logger.warning("liveness cannot be shown just now: %s", error)
                failed = True
            else:
                failed = False


_life: _Life | None = None
_lock = threading.Lock()


def start(name: str) -> UUID:
    """Begin to show that this process lives, as `name` (`runs`, `tools`, …), and return its id.

    Once per process: a second call returns the same id. A forked child must call it again and gets an id of its own.
    """
    global _life
    with _lock:
        if _life is None:
            _life = _Life(name)
        return _life.id


def current() -> UUID:
    """The id of this process: the owner of what it executes. Raises RuntimeError before `start`."""
    if _life is None:
        raise RuntimeError("liveness was not started in this process")
    return _life.id


async def keep_pulse() -> None:
    """Runs on the event loop that does the work of this process, until cancelled: from now on the process shows that
    it lives only while that loop moves."""
    while True:
        if _life is not None:
            _life.pulsed_at = time.monotonic()
        await asyncio.sleep(_PULSE_SECONDS)


def is_stuck() -> bool:
    """Whether the event loop of this process hangs."""
    return _life is not None and _life.is_stuck


def stop() -> None:
    """Free the lock and remove the mark; what this process still owns counts as left behind. Does nothing twice."""
    global _life
    with _lock:
        life, _life = _life, None
    if life is not None:
        life.stop()


def list_processes() -> list[ProcessView]:
    """Every process of the installation that shows itself, dead ones until they are swept; oldest first."""
    return installed_marks().list_processes()


def _leave_parents_life() -> None:
    global _life, _lock
    life, _life, _lock = _life, None, threading.Lock()
    if life is not None:
        life.mark.abandon()


os.register_at_fork(after_in_child=_leave_parents_life)
