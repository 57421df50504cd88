"""The stored events of the caller's sessions as the events that observers of the gateway are sent."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.utils import timezone

from agents_app import events as runs
from audit_app import timeline
from audit_app.timeline import KeptEvent
from sessions_app import selectors
from sessions_app.models import Session
from sessions_app.surfaces.base.timestamps import iso
from tools_app import events as tools

TYPES = (
    runs.RUN_STARTED.name,
    *runs.RUN_ENDS,
    runs.SESSION_COMPACTED.name,
    tools.TOOL_REQUESTED.name,
    tools.TOOL_COMPLETED.name,
    tools.TOOL_FAILED.name,
)
_MOST_SESSIONS, _MOST_KEPT, _KEPT = 100, 500, timedelta(days=1)


class Feed:
    """The events of the user's sessions from now on: of the 100 that were active last. Synchronous."""

    def __init__(self, user: User) -> None:
        self._user = user
        self._since = _milliseconds(timezone.now())
        self._seen = timeline.list_heads([session.pk for session in _sessions(user).values()])

    def read(self) -> list[dict[str, Any]]:
        """Return the events since the last call. Two statements while nothing happens."""
        sessions = _sessions(self._user)
        heads = timeline.list_heads(list(sessions))
        for session_id in heads.keys() - self._seen.keys():  # new, or active again after others
            self._seen[session_id], _ = timeline.find_place(session_id, ts=self._since)
        news = {found: self._seen[found] for found, head in heads.items() if head > self._seen[found]}
        events = sorted(timeline.list_news(news), key=lambda event: event.ts) if news else []
        for event in events:
            self._seen[event.session_id] = max(self._seen[event.session_id], event.seq)
        return [shown for event in events for shown in observed(event, sessions[event.session_id])]


def list_history(user: User) -> list[dict[str, Any]]:
    """Return the newest 500 events of the last day, the oldest first."""
    sessions = _sessions(user)
    since = _milliseconds(timezone.now() - _KEPT)
    events = timeline.list_newest(list(sessions), TYPES, since=since, limit=_MOST_KEPT)
    return [shown for event in events for shown in observed(event, sessions[event.session_id])]


def observed(event: KeptEvent, session: Session) -> list[dict[str, Any]]:
    """Return what observers are sent of an event, mostly nothing. The agent is that of the session."""
    payload, sent = event.payload, list[dict[str, Any]]()
    if event.type == runs.RUN_STARTED.name:
        sent = [{"type": "agent_start"}]
    elif event.type in runs.RUN_ENDS:
        is_complete = event.type == runs.RUN_COMPLETED.name
        failure = {"type": "error", "component": "agent", "code": payload["code"], "message": payload["message"]}
        has_failed = not is_complete and event.type != runs.RUN_CANCELLED.name
        sent = [*([failure] if has_failed else []), {"type": "agent_end", "success": is_complete}]
    elif event.type == tools.TOOL_REQUESTED.name:
        sent = [{"type": "tool_call_start", **_named(payload)}]
    elif event.type in (tools.TOOL_COMPLETED.name, tools.TOOL_FAILED.name):
        success = event.type == tools.TOOL_COMPLETED.name
        sent = [{"type": "tool_call", **_named(payload), "success": success, "duration_ms": payload["duration_ms"]}]
    elif event.type == runs.SESSION_COMPACTED.name:
        sent = [{"type": "history_trimmed", "dropped_messages": payload["turns"], "reason": payload["reason"]}]
    about = {
        "source": "observability",
        "timestamp": iso(datetime.fromtimestamp(event.ts / 1000, UTC)),
        "channel": session.channel,
        "agent_alias": session.agent.agent_id,
        "turn_id": str(event.run_id) if event.run_id else None,
    }
    return [{**one, **about} for one in sent]


def _named(payload: Mapping[str, Any]) -> dict[str, Any]:
    return {"tool": payload["tool"], "tool_call_id": payload["execution_id"]}


def _sessions(user: User) -> dict[UUID, Session]:
    return {session.pk: session for session in selectors.list_sessions(user, limit=_MOST_SESSIONS)}


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
