"""Reads of the database: sessions by the ids of clients, answers, the state of a session. Synchronous."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User

from agents_app import selectors as agents
from agents_app.types import RunStatus, RunView
from audit_app import timeline
from audit_app.kernel.errors import NotFound
from sessions_app import selectors
from sessions_app.access import access_session
from sessions_app.conversation.citations import full_text
from sessions_app.live_view.viewer import cursor_now
from sessions_app.models import Schedule, ScheduleTick, Session, Turn
from sessions_app.surfaces.base import client_sessions

NAME = "zeroclaw"  # the key of this surface's data in sessions
KEY_PREFIX = "gw_"
STARTED_AT = datetime.now(UTC)
_MOST_SESSIONS, _MOST_MESSAGES = 200, 500


def find_session(user: User, name: str) -> Session | None:
    """Return the user's session of that name; None if there is none. Raises MissingScope.

    name: the client's id of it, with `gw_` or not, or our id or key.
    """
    for client_id in dict.fromkeys((name, name.removeprefix(KEY_PREFIX))):
        if found := client_sessions.find_session(user, client_sessions.thread_id_of(NAME, client_id)):
            return access_session(user, found.id)
    try:
        return access_session(user, name)
    except NotFound:
        return None


def get_session(user: User, name: str) -> Session:
    """Return the user's session of that name, as `find_session`. Raises NotFound and MissingScope."""
    found = find_session(user, name)
    if found is None:
        raise NotFound("There is no such session.")
    return found


def client_id_of(session: Session) -> str:
    """Return the id by which clients know a session: their own, or ours of one that they have not named."""
    return str((session.metadata.get(NAME) or {}).get("id") or session.id)


def is_of_gateway(session: Session) -> bool:
    """Return whether a client of this surface has opened the session."""
    return NAME in session.metadata


def list_sessions(user: User) -> Sequence[Session]:
    """Return the user's sessions, the last active first: at most 200."""
    return selectors.list_sessions(user, limit=_MOST_SESSIONS)


def list_messages(session: Session) -> list[Turn]:
    """Return the newest 500 turns of the active branch, the oldest first."""
    return [turn for turn in selectors.list_turns(session, limit=_MOST_MESSAGES) if not turn.is_context]


def find_open_run(session: Session) -> RunView | None:
    """Return the run that works or waits in a session."""
    return agents.find_open_run(session.id)


def cursor_of(session_id: UUID) -> str:
    """Return from where to watch a session: from the beginning of the open run, so that what it asks is shown again."""
    run = agents.find_open_run(session_id)
    first = timeline.find_first_of_run(run.id) if run else None
    return str(first.seq - 1) if first else cursor_now(session_id)


def list_ticks(schedule: Schedule, limit: int) -> list[tuple[ScheduleTick, Turn | None]]:
    """Return the newest ticks of a schedule, each with the answer of its run, if it has one."""
    ticks = list(schedule.ticks.all()[:limit])
    runs = [tick.run_id for tick in ticks if tick.run_id]
    answers = {turn.run_id: turn for turn in Turn.objects.filter(run_id__in=runs, role="assistant", is_answer=True)}
    return [(tick, answers.get(tick.run_id) if tick.run_id else None) for tick in ticks]


def read_run(run_id: UUID) -> RunView:
    return agents.get_run(run_id)


def read_answer(run_id: UUID) -> dict[str, Any]:
    """Return the answer of a run that has ended, with what it has used, as fields of `done`."""
    transcript, cost = agents.get_transcript(run_id), agents.get_cost(run_id)
    text, _ = full_text(transcript, selectors.citations_by_step(run_id))
    used = cost.usage
    return {
        "full_response": text,
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "tokens_used": used.input_tokens + used.output_tokens,
        "cost_usd": cost.cost,
        "currency": settings.KOMAND_CURRENCY,
        "model": cost.models[-1] if cost.models else transcript.run.agent_id,
    }


def state_of(run: RunView | None, last: RunView | None) -> str:
    """Return the state of a session.

    run: the open one.
    last: the last one.
    """
    if run:
        return "running"
    has_failed = last is not None and last.status in (RunStatus.FAILED, RunStatus.TIMED_OUT)
    return "error" if has_failed else "idle"
