"""Copies of live text for runs whose streams are silent, as while Valkey hangs or a worker cannot reach it."""

import time
from collections.abc import Callable, Collection
from uuid import UUID

from audit_app import live_copies
from audit_app.follow.items import START, LiveEntry, Position, format_position, parse_entry
from audit_app.kernel.database import in_db
from audit_app.live_copies import StoredCopy

_SILENT_SECONDS = 1.0


class CopyReader:
    """Calls `on_entry` with the newest copy of each watched run, once. No statement while all streams move."""

    def __init__(self, on_entry: Callable[[LiveEntry], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._on_entry = on_entry
        self._clock = clock
        self._moved_at: dict[UUID, float] = {}
        self._delivered: dict[UUID, Position] = {}

    def watch(self, run_id: UUID) -> None:
        """Look for copies of this run. Of a run that is watched already, the last one is delivered again."""
        self._moved_at.setdefault(run_id, self._clock())
        self._delivered[run_id] = START

    def unwatch(self, run_id: UUID) -> None:
        self._moved_at.pop(run_id, None)
        self._delivered.pop(run_id, None)

    def note_entries(self, run_id: UUID) -> None:
        """Note that the run's stream moves."""
        if run_id in self._moved_at:
            self._moved_at[run_id] = self._clock()

    async def find(self, run_id: UUID) -> list[LiveEntry]:
        """Return the newest copy of a run, if there is one."""
        return _entries(await in_db(live_copies.list_newer, {run_id: START}))

    def has_silent_runs(self, seconds: float) -> bool:
        """Return whether the stream of a watched run has not moved for so long."""
        return any(at <= self._clock() - seconds for at in self._moved_at.values())

    async def look(self) -> None:
        """Deliver the new copies of silent runs. At most two statements."""
        silent_since = self._clock() - _SILENT_SECONDS
        silent = {run_id: self._delivered[run_id] for run_id, at in self._moved_at.items() if at <= silent_since}
        if not silent:
            return
        for entry in _entries(await in_db(live_copies.list_newer, silent)):
            if entry.run_id in self._delivered:  # else it ended meanwhile
                self._delivered[entry.run_id] = entry.position
                self._on_entry(entry)


def _entries(copies: Collection[StoredCopy]) -> list[LiveEntry]:
    parsed = (
        parse_entry(one.run_id, format_position((one.fence, one.n)).encode(), {b"e": one.entry}) for one in copies
    )
    return [entry for entry in parsed if entry]
