"""Copies of live text in the database, for viewers while Valkey hangs or cannot be reached by the worker of a run.

A copy is a snapshot with a position in the live stream of its claim, so that viewers merge it as any other entry. Each
claim has one row, which it replaces.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.utils import timezone

from audit_app.models import LiveCopy
from audit_app.stream import Copy


@dataclass(frozen=True, slots=True)
class StoredCopy:
    """The newest copy of a run as it was read. entry: JSON."""

    run_id: UUID
    fence: int
    n: int
    entry: bytes


def store(copies: Sequence[Copy]) -> None:
    """Store a copy for each claim, in place of its earlier one. One statement."""
    now = timezone.now()
    LiveCopy.objects.bulk_create(
        [
            LiveCopy(run_id=one.run_id, fence=one.fence, n=one.n, entry=json.dumps(one.fields), stored_at=now)
            for one in copies
        ],
        update_conflicts=True,
        unique_fields=["run_id", "fence"],
        update_fields=["n", "entry", "stored_at"],
    )


def list_newer(positions: Mapping[UUID, tuple[int, int]]) -> list[StoredCopy]:
    """Return the newest copy of each run if it is behind the given position. Reads no text of the others."""
    known = LiveCopy.objects.filter(run_id__in=list(positions)).values_list("run_id", "fence", "n", "id")
    newest: dict[UUID, tuple[tuple[int, int], int]] = {}
    for run_id, fence, n, pk in known:
        if (fence, n) > newest.get(run_id, (positions[run_id], 0))[0]:
            newest[run_id] = (fence, n), pk
    return _read([pk for _, pk in newest.values()])


def _read(pks: Collection[int]) -> list[StoredCopy]:
    rows = LiveCopy.objects.filter(pk__in=pks).values_list("run_id", "fence", "n", "entry") if pks else ()
    return [StoredCopy(run_id, fence, n, entry.encode()) for run_id, fence, n, entry in rows]
