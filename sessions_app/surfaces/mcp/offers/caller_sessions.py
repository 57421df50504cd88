"""The caller's own sessions, as tools and as resources."""

import json
from typing import Any
from uuid import UUID

from audit_app.kernel.database import in_db
from sessions_app import selectors
from sessions_app.access import access_session
from sessions_app.conversation import message_search
from sessions_app.conversation.citations import for_people
from sessions_app.identity.principal import Principal
from sessions_app.models import Session, Turn
from sessions_app.surfaces.mcp.calls import Call
from sessions_app.surfaces.mcp.registry import (
    Content,
    Page,
    Resource,
    ResourceKind,
    Tool,
    parameters_of,
    resources,
    sliced,
    tools,
)

SESSION = {"type": "string", "minLength": 1, "maxLength": 512, "description": "`session` of another tool's result."}
_MOST_LISTED, _TURNS_READ = 200, 50
_LIMIT = {"type": "integer", "minimum": 1, "maximum": _MOST_LISTED}


async def _list_sessions(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    limit = arguments.get("limit", 20)
    if query := arguments.get("query", "").strip():
        matches = await in_db(message_search.search_sessions, call.principal.user, query, limit=limit)
        return {"sessions": [{**_session(match.session), "snippet": match.excerpt} for match in matches]}
    rows = await in_db(selectors.list_sessions, call.principal.user, limit=limit)
    return {"sessions": [_session(row) for row in rows]}


async def _get_session_history(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    return await in_db(history_of, call.principal, arguments["session"], arguments.get("limit", _TURNS_READ))


def history_of(principal: Principal, key: str, limit: int) -> dict[str, Any]:
    """Return the newest messages of one of the caller's sessions, oldest first. Synchronous."""
    session = access_session(principal.user, key)
    return {**_session(session), "turns": [_turn(turn) for turn in selectors.list_turns(session, limit=limit)]}


def _session(row: Session) -> dict[str, Any]:
    return {
        "session": row.key,
        "title": row.title,
        "agent": row.agent.agent_id,
        "channel": row.channel,
        "last_active_at": row.last_active_at.isoformat(),
    }


def _turn(row: Turn) -> dict[str, Any]:
    cited = selectors.citations_of(row)
    text = for_people([(row.content, cited)]) if cited else row.attached if row.is_context else row.content
    shown: dict[str, Any] = {"role": row.role, "text": text, "at": row.created_at.isoformat(), "state": row.state}
    return shown | ({"error": row.error_message} if row.error_message else {})


def _list_page(principal: Principal, cursor: str) -> Page:
    def rows(offset: int, limit: int) -> tuple[Session, ...]:
        return selectors.list_sessions(principal.user, offset=offset, limit=limit)

    found, following = sliced(rows, cursor)
    return Page([_resource(row) for row in found], following)


def _resource(row: Session) -> Resource:
    name, about = row.title or row.key, f"Session with the agent {row.agent.agent_id}."
    return Resource({"session": row.key}, name, about, "application/json", changed_at=row.last_active_at)


def _read(principal: Principal, session: str) -> Content:
    return Content(json.dumps(history_of(principal, session, _TURNS_READ), ensure_ascii=False), "application/json")


def _find_session(principal: Principal, session: str) -> UUID:
    return access_session(principal.user, session).pk


tools.register(
    Tool(
        "list_sessions",
        "List sessions",
        "List your own sessions, most recently active first.",
        parameters_of(limit=_LIMIT, query={"type": "string", "description": "Words in the title or in one message."}),
        True,
        _list_sessions,
    )
)
tools.register(
    Tool(
        "get_session_history",
        "Get a session's history",
        "Return the latest messages of one of your sessions, oldest first.",
        parameters_of(("session",), session=SESSION, limit=_LIMIT),
        True,
        _get_session_history,
    )
)
resources.register(
    ResourceKind(
        "sessions",
        "komand://sessions/{session}",
        "Session",
        f"The newest {_TURNS_READ} messages of one of your sessions, oldest first.",
        "application/json",
        _list_page,
        _read,
        _find_session,
    )
)
