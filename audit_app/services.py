"""The only doors by which facts are written: `emit` for the timeline, `record` for the audit log alone."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from audit_app import hot_queries, stream
from audit_app.event_types import NewEvent
from audit_app.kernel import context, redact
from audit_app.models import AuditEntry, Event

# One statement locks the head, counts on and returns the last numbers given out. `{greatest}` is MAX on SQLite.
_TAKE_NUMBERS = """
    INSERT INTO komand_timeline_head (session_id, seq, ts) VALUES (%s, %s, %s)
    ON CONFLICT (session_id) DO UPDATE SET
        seq = komand_timeline_head.seq + excluded.seq,
        ts = {greatest}(komand_timeline_head.ts + excluded.seq, excluded.ts)
    RETURNING seq, ts
"""


def emit(facts: Iterable[NewEvent]) -> list[Event]:
    """Write kept events as the last write of the caller's transaction; audited types write their entry too.

    All facts given out for one session get consecutive `seq` and rising `ts`. After commit one hint per session
    tells the followers. The rows come back without ids. Must run inside `atomic`; raises what the database raises,
    never for a broker.
    """
    by_session: dict[UUID, list[NewEvent]] = {}
    for fact in facts:
        by_session.setdefault(fact.session_id, []).append(fact)
    events: list[Event] = []
    for session_id, session_facts in by_session.items():
        events += _append(session_id, session_facts)
    return events


def _append(session_id: UUID, facts: Sequence[NewEvent]) -> list[Event]:
    now = datetime.now(UTC)
    seq, ts = _take_numbers(session_id, len(facts), int(now.timestamp() * 1000))
    first_seq, first_ts = seq - len(facts) + 1, ts - len(facts) + 1
    request_id = context.request_id.get()
    events, entries = [], []
    for index, fact in enumerate(facts):
        who = fact.actor or context.actor.get()
        payload = redact.masked(fact.payload)
        events.append(
            Event(
                session_id=session_id,
                seq=first_seq + index,
                ts=first_ts + index,
                type=fact.type.name,
                run_id=fact.run_id,
                parent_run_id=fact.parent_run_id,
                workstream=fact.workstream,
                step=fact.step,
                actor=who,
                request_id=request_id,
                payload=payload,
            )
        )
        if action := fact.type.audit_action(payload):
            details = {**payload, "run_id": str(fact.run_id)} if fact.run_id else payload
            entries.append(_entry(action, who, fact.agent_id, session_id, fact.session_key, now, details))
    hot_queries.INSERT_EVENTS.run(events)
    hot_queries.INSERT_AUDIT_ENTRIES.run(entries)
    transaction.on_commit(partial(stream.send_hint, session_id, seq), robust=True)
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
    """Write an audit entry alone, for acts that nobody watches live. Joins the caller's transaction if there is one."""
    entry = _entry(
        action,
        actor or context.actor.get(),
        agent_id,
        session_id,
        session_key,
        datetime.now(UTC),
        redact.masked(details or {}),
    )
    with transaction.atomic(savepoint=False):
        hot_queries.INSERT_AUDIT_ENTRIES.run([entry])


def _entry(
    action: str,
    who: str,
    agent_id: str,
    session_id: UUID | None,
    session_key: str,
    at: datetime,
    details: dict[str, Any],
) -> AuditEntry:
    return AuditEntry(
        action=action,
        actor=who,
        agent_id=agent_id,
        session_id=session_id,
        session_key=session_key,
        request_id=context.request_id.get(),
        at=at,
        details=details,
    )


def _take_numbers(session_id: UUID, count: int, now_ms: int) -> tuple[int, int]:
    postgres = connection.vendor == "postgresql"
    sql = _TAKE_NUMBERS.format(greatest="GREATEST" if postgres else "MAX")
    with connection.cursor() as cursor:
        cursor.execute(sql, [session_id if postgres else session_id.hex, count, now_ms + count - 1])
        seq, ts = cursor.fetchone()
    return int(seq), int(ts)
