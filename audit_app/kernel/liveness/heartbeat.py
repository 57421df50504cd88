"""The heartbeat of this process: its id, its mark, and the daemon thread that beats each second."""

import asyncio
import logging
import os
import threading
import time
from dataclasses import replace
from uuid import UUID

from django.db import connections

from audit_app.kernel.ids import new_id
from audit_app.kernel.liveness import shared_folder
from audit_app.kernel.liveness.process_marks import ProcessView, Traits
from audit_app.kernel.liveness.store import installed_marks

logger = logging.getLogger(__name__)

_BEAT_SECONDS = 1.0
_PULSE_SECONDS = 0.5
# An event loop that has not run for so long hangs, and with it everything that this process owns.
_STUCK_SECONDS = 3.0


class _Heartbeat:
    def __init__(self, name: str) -> None:
        self.id = new_id()
        self.mark = installed_marks().open(self.id, name)
        self.pulsed_at: float | None = None
        self._traits, self._is_stopping = Traits(), False
        self._due = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="liveness", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping = True
        self._due.set()
        self._thread.join()
        self.mark.close()

    def set(self, **traits: bool) -> None:
        self._traits = replace(self._traits, **traits)
        self._due.set()

    @property
    def is_stuck(self) -> bool:
        return self.pulsed_at is not None and time.monotonic() - self.pulsed_at > _STUCK_SECONDS

    def _beat(self) -> None:
        count, failed, was_stuck = 0, False, False
        while not self._is_stopping_after(_BEAT_SECONDS):
            if self.is_stuck:
                if not was_stuck:
                    logger.error("the event loop of this process is blocked: other processes will treat it as hung")
                was_stuck = True
                continue
            was_stuck = False
            count += 1
            try:
                self.mark.beat(count, self._traits)
            except Exception as error:  # whatever it is, a live process must go on beating
                if not failed:
                    logger.warning("the heartbeat cannot be stored: %s", error)
                failed = True
            else:
                failed = False

    def _is_stopping_after(self, seconds: float) -> bool:
        """Wait so long, or until there is something to store. Return whether the heartbeat ends."""
        self._due.wait(seconds)
        self._due.clear()
        return self._is_stopping


_heartbeat: _Heartbeat | None = None
_lock = threading.Lock()


def start(name: str) -> UUID:
    """Start the heartbeat of this process under `name` (`runs`, `tools`, …), and return its id.

    Once per process: a second call returns the same id. A forked child must call it again and gets an id of its own.
    """
    global _heartbeat
    with _lock:
        if _heartbeat is None:
            _heartbeat = _Heartbeat(name)
        return _heartbeat.id


def current() -> UUID:
    """Return the id of this process, the owner of what it executes. Raises RuntimeError before `start`."""
    if _heartbeat is None:
        raise RuntimeError("liveness was not started in this process")
    return _heartbeat.id


async def keep_pulse() -> None:
    """Run on the event loop that does the work of this process, until cancelled.

    From now on the heartbeat stops while that loop is blocked.
    """
    while True:
        if _heartbeat is not None:
            _heartbeat.pulsed_at = time.monotonic()
        await asyncio.sleep(_PULSE_SECONDS)


def is_stuck() -> bool:
    """Return whether the event loop of this process hangs."""
    return _heartbeat is not None and _heartbeat.is_stuck


def set_blind(is_blind: bool) -> None:
    """Store with the heartbeat whether this process cannot read live text, which workers then store."""
    if _heartbeat is not None:
        _heartbeat.set(is_blind=is_blind)


def set_sweeping(sweeps: bool) -> None:
    """Store with the heartbeat whether this process sweeps: the oldest one of those does it for all."""
    if _heartbeat is not None:
        _heartbeat.set(sweeps=sweeps)


def stop() -> None:
    """Free the lock and remove the mark; what this process still owns is orphaned. Idempotent."""
    global _heartbeat
    with _lock:
        heartbeat, _heartbeat = _heartbeat, None
    if heartbeat is not None:
        heartbeat.stop()


def list_processes() -> list[ProcessView]:
    """Return every process of the installation that has a mark, dead ones until they are swept; oldest first."""
    return installed_marks().list_processes()


def find_strangers() -> list[ProcessView]:
    """Return the live processes that have another data folder than this one."""
    if connections["default"].vendor != "postgresql":
        return []
    return shared_folder.find_strangers(list_processes(), list_processes)


def _abandon_parents_heartbeat() -> None:
    global _heartbeat, _lock
    heartbeat, _heartbeat, _lock = _heartbeat, None, threading.Lock()
    if heartbeat is not None:
        heartbeat.mark.abandon()


os.register_at_fork(after_in_child=_abandon_parents_heartbeat)
