"""Compacting a session on request: a run that answers nothing."""

from uuid import UUID

from django.db import transaction

from agents_app import selectors as agents
from agents_app import services as runs
from agents_app.types import RunOptions
from audit_app import services as audit
from audit_app.kernel.errors import Conflict
from sessions_app import hot_queries
from sessions_app.conversation import run_options
from sessions_app.conversation.sessions import check_owner, lock
from sessions_app.models import Session, Turn


def compact_session(session: Session, *, actor: str) -> UUID:
    """Have the session's agent summarise the earlier messages, after its open runs. Return the id of the run.

    While such a run is open, a repeated call returns the same id. Owns its transaction. Raises Conflict
    (nothing_to_compact) if there is no message since the last summary, Forbidden (agent_not_shared, audited) if the
    session's owner may no longer use the agent, and Stopped if the agent is stopped.
    """
    check_owner(session, session.agent)
    with transaction.atomic():
        session = lock(session.id)
        if waiting := agents.find_open_compaction(session.id):
            return waiting
        found = hot_queries.FIND_CHECKPOINT.first(session_id=session.id, ordinal=session.next_ordinal)
        later = Turn.objects.filter(session=session, is_off_path=False, ordinal__gt=found.ordinal if found else -1)
        if not later.exclude(content="").exclude(is_pinned=True).exists():
            raise Conflict("There is no message to summarise yet.", code="nothing_to_compact")
        new = runs.NewRun(
            conversation_id=session.id,
            session_key=session.key,
            ordinal=session.next_ordinal,
            agent=session.agent,
            actor=actor,
            user_turn_count=0,
            session_policy=run_options.restrictions(session, None, ()),
            options=RunOptions(compacts_only=True),
        )
        Session.objects.filter(pk=session.pk).update(next_ordinal=session.next_ordinal + 1)
        run, queued = runs.start_run(new)
        audit.emit(queued)
        return run.id
