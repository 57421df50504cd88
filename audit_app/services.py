"""Writes of events and audit entries: `emit` for the timeline, `record` for the audit log alone."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from audit_app import hot_queries, stream
from audit_app.event_types import NewEvent
from audit_app.kernel import context, redact
from audit_app.kernel.after_commit import after_commit
from audit_app.models import AuditEntry, Event

# One statement locks the head, advances it and returns the last numbers. `{greatest}` is MAX on SQLite.
_TAKE_NUMBERS = """
    INSERT INTO komand_timeline_head (session_id, seq, ts) VALUES (%s, %s, %s)
    ON CONFLICT (session_id) DO UPDATE SET
        seq = komand_timeline_head.seq + excluded.seq,
        ts = {greatest}(komand_timeline_head.ts + excluded.seq, excluded.ts)
    RETURNING seq, ts
"""


def emit(new_events: Iterable[NewEvent]) -> list[Event]:
    """Store events as the last write of the caller's transaction; audited types write their audit entry too.

    The events of one session get consecutive `seq` and rising `ts`. After commit one hint per session is sent to the
    followers. Returns the rows, without ids. Must run inside `atomic`. Raises the database's errors, but none of the
    broker.
    """
    by_session: dict[UUID, list[NewEvent]] = {}
    for new in new_events:
        by_session.setdefault(new.session_id, []).append(new)
    return [event for session_id, batch in by_session.items() for event in _append(session_id, batch)]


def _append(session_id: UUID, batch: Sequence[NewEvent]) -> list[Event]:
    now = datetime.now(UTC)
    seq, ts = _take_numbers(session_id, len(batch), int(now.timestamp() * 1000))
    request_id = context.request_id.get()
    events, entries = [], []
    for behind, new in zip(reversed(range(len(batch))), batch, strict=True):
        actor = new.actor or context.actor.get()
        payload = redact.masked(new.payload)
        events.append(
            Event(
                session_id=session_id,
                seq=seq - behind,
                ts=ts - behind,
                type=new.type.name,
                run_id=new.run_id,
                parent_run_id=new.parent_run_id,
                workstream=new.workstream,
                step=new.step,
                actor=actor,
                request_id=request_id,
                payload=payload,
            )
        )
        if action := new.type.audit_action(payload):
            entries.append(
                AuditEntry(
                    action=action,
                    actor=actor,
                    agent_id=new.agent_id,
                    session_id=session_id,
                    session_key=new.session_key,
                    request_id=request_id,
                    at=now,
                    details={**payload, **new.audit_details, **({"run_id": str(new.run_id)} if new.run_id else {})},
                )
            )
    hot_queries.INSERT_EVENTS.run(events)
    hot_queries.INSERT_AUDIT_ENTRIES.run(entries)
    after_commit(stream.send_hint, session_id, seq)
    return events


def record(
    action: str,
    *,
    details: dict[str, Any] | None = None,
    actor: str = "",
    agent_id: str = "",
    session_id: UUID | None = None,
    session_key: str = "",
) -> None:
    """Write an audit entry alone, for actions that are no event. Joins the caller's transaction if there is one."""
    entry = AuditEntry(
        action=action,
        actor=actor or context.actor.get(),
        agent_id=agent_id,
        session_id=session_id,
        session_key=session_key,
        request_id=context.request_id.get(),
        at=datetime.now(UTC),
        details=redact.masked(details or {}),
    )
    with transaction.atomic(savepoint=False):
        hot_queries.INSERT_AUDIT_ENTRIES.run([entry])


def _take_numbers(session_id: UUID, count: int, now_ms: int) -> tuple[int, int]:
    postgres = connection.vendor == "postgresql"
    sql = _TAKE_NUMBERS.format(greatest="GREATEST" if postgres else "MAX")
    with connection.cursor() as cursor:
        cursor.execute(sql, [session_id if postgres else session_id.hex, count, now_ms + count - 1])
        seq, ts = cursor.fetchone()
    return int(seq), int(ts)
