"""Queries of the activity of sessions: open runs, and runs that wait for a person."""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from agents_app.models import Run
from agents_app.types import RunStatus, WaitingOn
from audit_app.kernel.compiled_queries import padded
from sessions_app import hot_queries


@dataclass(frozen=True)
class Activity:
    """Those of some sessions that have an open run, and those where a run or a workstream waits for a person.

    approvals: for a decision.
    questions: for an answer.
    """

    running: frozenset[UUID] = frozenset()
    approvals: frozenset[UUID] = frozenset()
    questions: frozenset[UUID] = frozenset()


def list_activity(session_ids: Collection[UUID]) -> Activity:
    """Return what these sessions do. One query, none for no sessions."""
    if not session_ids:
        return Activity()
    values = {f"session_{n}": found for n, found in enumerate(padded([*session_ids]))}
    rows = hot_queries.activity_among(len(values)).rows(**values)
    asking = [(session_id, on) for session_id, _, status, on in rows if status == RunStatus.WAITING.value]
    return Activity(
        frozenset(session_id for session_id, parent_id, *_ in rows if parent_id is None),
        frozenset(session_id for session_id, on in asking if on == WaitingOn.APPROVAL.value),
        frozenset(session_id for session_id, on in asking if on == WaitingOn.INPUT.value),
    )


def list_paths(run_ids: Collection[UUID]) -> dict[UUID, tuple[str, ...]]:
    """Return the names for people of these workstreams and those above them. Root runs are left out. One query."""
    rows = Run.objects.filter(pk__in=run_ids, parent__isnull=False)
    return {row.pk: tuple(row.child_spec.path) for row in rows}
