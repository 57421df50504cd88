"""Decides which owners are dead, by locks and counters, on the observer's own monotonic clock."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from uuid import UUID

from audit_app.kernel.liveness import shared_folder
from audit_app.kernel.liveness.process_marks import Look, Marks
from audit_app.kernel.liveness.store import installed_marks

# A process beats each second. Free lock and no beat for two seconds: it is dead. No beat for eight: it hangs.
_GONE_SECONDS = 2.0
_HUNG_SECONDS = 8.0
# A longer pause between two looks may have stopped every process (a suspended machine), so only a part of it counts.
# Not zero: else an observer that is slow for hours would never find a dead process.
_BLIND_SECONDS, _BLIND_COUNTS_SECONDS = 3.0, 0.5
_FORGET_SECONDS = 60.0
# Marks of dead processes are removed this often, once they were seen free twice.
_SWEEP_SECONDS = 30.0
_blind: set[UUID] = set()  # live processes that could not read live text at the last look of this process
_UNKNOWN = Look(locked=False, beat=-1)


@dataclass
class _Watch:
    """beat: last observed count.
    still: seconds without a new count.
    looked_at: time of the observation, in monotonic seconds.
    """

    beat: int
    looked_at: float
    still: float = 0.0


class Observer:
    """A failure detector. One per process, called about each second. Not safe for several threads."""

    def __init__(self, marks: Marks | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """marks: the store of marks, default this installation's.
        clock: seconds, for tests.
        """
        self._marks = marks or installed_marks()
        self._clock = clock
        self._watches: dict[UUID, _Watch] = {}
        self._swept_at = clock()
        self._free: set[UUID] = set()

    def dead(self, owners: Iterable[UUID]) -> set[UUID]:
        """Return those of `owners` that are dead or hang. An owner is never dead at the first look.

        Raises the store's errors if it is unavailable, and resets all clocks: without the store no process could beat.
        """
        wanted = set(owners)
        looks = self._look(wanted) if wanted else {}
        now = self._clock()
        dead = {owner for owner in wanted if self._is_dead(owner, looks.get(owner, _UNKNOWN), now)}
        self._watches = {k: watch for k, watch in self._watches.items() if now - watch.looked_at < _FORGET_SECONDS}
        return dead

    def comes_first(self, own: UUID) -> bool:
        """Return whether no older live process sweeps. own: the id of this process. Raises the store's errors."""
        looks, now = self._look(set()), self._clock()
        older = {life_id: look for life_id, look in looks.items() if look.traits.sweeps and life_id < own}
        hanging = {life_id for life_id, look in older.items() if self._is_dead(life_id, look, now)}
        return not [life_id for life_id, look in older.items() if look.locked and life_id not in hanging]

    def _look(self, wanted: set[UUID]) -> dict[UUID, Look]:
        try:
            looks = self._marks.look(wanted)
            self._sweep()
        except Exception:
            self._watches.clear()
            raise
        _blind.clear()
        _blind.update(life_id for life_id, look in looks.items() if look.traits.is_blind and look.locked)
        return looks

    def _is_dead(self, owner: UUID, look: Look, now: float) -> bool:
        watch = self._watches.setdefault(owner, _Watch(look.beat, now))
        pause, watch.looked_at = now - watch.looked_at, now
        if look is not _UNKNOWN and look.beat != watch.beat:
            watch.beat, watch.still = look.beat, 0.0
            return False
        watch.still += pause if pause <= _BLIND_SECONDS else _BLIND_COUNTS_SECONDS
        return watch.still >= (_HUNG_SECONDS if look.locked else _GONE_SECONDS)

    def _sweep(self) -> None:
        if self._clock() - self._swept_at < _SWEEP_SECONDS:
            return
        self._swept_at = self._clock()
        processes = self._marks.list_processes()
        free = {process.id for process in processes if not process.alive}
        self._marks.remove(free & self._free)
        self._free = free
        shared_folder.log_new(shared_folder.find_strangers(processes, self._marks.list_processes))


def has_blind_process() -> bool:
    """Return whether a live process could not read live text when an observer of this process looked last."""
    return bool(_blind)
