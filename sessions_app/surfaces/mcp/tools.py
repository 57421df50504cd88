"""The tools of the MCP server: arguments, implementation, results. Independent of the protocol.

Each tool acts for the principal and looks objects up with `access`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings

from agents_app import selectors as agents
from agents_app.types import RunTranscript
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import InvalidInput
from audit_app.kernel.ids import new_id
from audit_app.kernel.redact import masked_arguments
from sessions_app import selectors, services
from sessions_app.access import access_agent, access_approval, access_run, access_session, list_agents
from sessions_app.approvals import decisions, permissions
from sessions_app.conversation import message_search
from sessions_app.conversation.citations import for_people
from sessions_app.identity import rate_limits
from sessions_app.identity.actor_names import display_name
from sessions_app.identity.principal import Principal
from sessions_app.live_view.viewer import wait_until_ended
from sessions_app.models import Session, Turn
from sessions_app.services import Accepted, NewMessage
from sessions_app.surfaces.base.bodies import clean
from sessions_app.surfaces.base.intake_limit import store_message
from tools_app import schema
from tools_app import selectors as tools
from tools_app.events import APPROVAL_REQUESTED, INPUT_REQUESTED
from tools_app.types import Decision
from tools_app.types.questions import text_of

_MOST_LISTED = 200
_ASKING = (APPROVAL_REQUESTED.name, INPUT_REQUESTED.name)
_HOW_TO_ANSWER = "Answer a question by ask_agent in its session, an approval by decide_approval; then call get_run."


@dataclass(frozen=True)
class OfferedTool:
    """A tool for MCP clients. parameters: JSON Schema of the arguments.

    reads: it changes nothing, so a read-only key may call it.
    run: takes the principal and the checked arguments.
    """

    name: str
    title: str
    description: str
    parameters: dict[str, Any]
    reads: bool
    run: Callable[[Principal, dict[str, Any]], Awaitable[dict[str, Any]]]


async def call(principal: Principal, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Run a tool for the principal. Raises AppError with a message for the caller."""
    tool = TOOLS.get(name)
    if tool is None:
        raise InvalidInput(f"There is no tool {name[:80]!r}; the tools are {', '.join(TOOLS)}.", code="unknown_tool")
    arguments = clean(arguments)
    try:
        schema.check_arguments(arguments, tool.parameters)
    except schema.ArgumentsError as problem:
        raise InvalidInput(str(problem)) from None
    if not tool.reads:
        await in_db(principal.require_write)
    return await tool.run(principal, arguments)


async def _list_agents(principal: Principal, arguments: dict[str, Any]) -> dict[str, Any]:
    rows = await in_db(list_agents, principal.user)
    return {"agents": [{"agent": row.agent_id, "name": row.name, "description": row.description or ""} for row in rows]}


async def _ask_agent(principal: Principal, arguments: dict[str, Any]) -> dict[str, Any]:
    accepted = await store_message(_accept, principal, arguments)
    seconds = min(arguments.get("wait_seconds", settings.KOMAND_WAIT_SECONDS), settings.KOMAND_WAIT_SECONDS)
    await wait_until_ended(accepted.session_id, accepted.run_id, seconds, stops_at=_ASKING)
    return await in_db(_outcome, principal, accepted.run_id, accepted.session_key)


def _accept(principal: Principal, arguments: dict[str, Any]) -> Accepted:
    rate_limits.take(rate_limits.chat_limit(), principal.actor)
    user, wanted = principal.user, arguments.get("session", "")
    session = access_session(user, wanted) if wanted else None
    named = "agent" in arguments or session is None
    agent_id = access_agent(user, arguments.get("agent", "default")).agent_id if named else ""
    if session is not None:
        if named and session.agent.agent_id != agent_id:
            raise InvalidInput(f"This session belongs to the agent {session.agent.agent_id!r}.", code="other_agent")
        return services.receive(NewMessage.into(session, arguments["message"]), owner=user, session=session)
    sender, thread_id = (str(user.pk), display_name(user)), str(new_id())
    inbound = NewMessage(services.WEB_CHAT, "default", *sender, arguments["message"], thread_id=thread_id)
    return services.receive(inbound, owner=user, agent_id=agent_id)


async def _get_run(principal: Principal, arguments: dict[str, Any]) -> dict[str, Any]:
    run = await in_db(access_run, principal.user, arguments["run"])
    session = await in_db(access_session, principal.user, run.conversation_id)
    seconds = min(arguments.get("wait_seconds", 0), settings.KOMAND_WAIT_SECONDS)
    outcome = await in_db(_outcome, principal, run.id, session.key)
    if seconds and not run.status.is_terminal and "asks" not in outcome:
        await wait_until_ended(session.pk, run.id, seconds, stops_at=_ASKING)
        outcome = await in_db(_outcome, principal, run.id, session.key)
    return outcome


def _outcome(principal: Principal, run_id: UUID, session_key: str) -> dict[str, Any]:
    transcript: RunTranscript = agents.get_transcript(run_id)
    run = transcript.run
    outcome: dict[str, Any] = {"session": session_key, "run": str(run.id), "status": run.status.value}
    if run.status.is_terminal:
        # With numbered sources: readers are people and models that do not know our source ids.
        cited = selectors.citations_by_step(run.id).get(transcript.answering_step, ())
        outcome["text"] = for_people([(transcript.answer, cited)])
        if run.error_message:
            outcome["error"] = run.error_message
    else:
        waits = f", waiting for {run.waiting_on.value}" if run.waiting_on else ""
        outcome["note"] = f"The run is still active{waits}. Call get_run to fetch its answer later."
        if asks := [*_approvals(principal, run.conversation_id), *_questions(run.conversation_id)]:
            outcome["asks"] = asks
            outcome["note"] = f"The run waits for a person. {_HOW_TO_ANSWER}"
    return outcome


def _approvals(principal: Principal, session_id: UUID) -> list[dict[str, Any]]:
    """Return the approvals that a session waits for, also those of its workstreams."""
    allowed = permissions.allowed_decisions(principal.user, selectors.find_owner_id(session_id))
    return [
        {
            "kind": "approval",
            "approval": str(asked.id),
            "asked_by": asked.workstream or asked.agent_id,
            "tool": asked.tool,
            "arguments": masked_arguments(asked.arguments),
            "reason": asked.reason,
            "expires_at": asked.expires_at.isoformat(),
            "decisions": [choice.value for choice in asked.choices if choice in allowed and principal.can_write],
        }
        for asked in tools.list_approvals(status="pending", session_ids=[session_id])
    ]


def _questions(session_id: UUID) -> list[dict[str, Any]]:
    """Return the question that a message to the session answers. The next one follows it."""
    asked = tools.find_question(session_id)
    if asked is None:
        return []
    return [{"kind": "question", "text": text_of(asked.questions), "expires_at": asked.expires_at.isoformat()}]


async def _decide_approval(principal: Principal, arguments: dict[str, Any]) -> dict[str, Any]:
    return await in_db(_decide, principal, **arguments)


def _decide(principal: Principal, approval: str, decision: str, note: str = "") -> dict[str, Any]:
    asked = access_approval(principal.user, approval, decision=decision)
    fresh = principal.has_fresh_login
    decided = decisions.decide(asked.id, decision=decision, actor=principal.actor, has_fresh_login=fresh, note=note)
    return {"approval": str(decided.id), "status": decided.status.value}


async def _list_sessions(principal: Principal, arguments: dict[str, Any]) -> dict[str, Any]:
    limit = arguments.get("limit", 20)
    if query := arguments.get("query", "").strip():
        matches = await in_db(message_search.search_sessions, principal.user, query, limit=limit)
        return {"sessions": [{**_session(match.session), "snippet": match.excerpt} for match in matches]}
    rows = await in_db(selectors.list_sessions, principal.user, limit=limit)
    return {"sessions": [_session(row) for row in rows]}


def _session(row: Session) -> dict[str, Any]:
    return {
        "session": row.key,
        "title": row.title,
        "agent": row.agent.agent_id,
        "channel": row.channel,
        "last_active_at": row.last_active_at.isoformat(),
    }


async def _get_session_history(principal: Principal, arguments: dict[str, Any]) -> dict[str, Any]:
    session = await in_db(access_session, principal.user, arguments["session"])
    turns = await in_db(selectors.list_turns, session, limit=arguments.get("limit", 50))
    return {**_session(session), "turns": [_turn(turn) for turn in turns]}


def _turn(row: Turn) -> dict[str, Any]:
    cited = selectors.citations_of(row)
    text = for_people([(row.content, cited)]) if cited else row.attached if row.is_context else row.content
    shown: dict[str, Any] = {"role": row.role, "text": text, "at": row.created_at.isoformat(), "state": row.state}
    return shown | ({"error": row.error_message} if row.error_message else {})


def _object(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


_SESSION = {"type": "string", "minLength": 1, "maxLength": 512, "description": "`session` of another tool's result."}
_WAIT = {"type": "integer", "minimum": 0, "description": "Maximum time to wait for the answer, in seconds."}
_LIMIT = {"type": "integer", "minimum": 1, "maximum": _MOST_LISTED}

TOOLS: dict[str, OfferedTool] = {
    tool.name: tool
    for tool in (
        OfferedTool(
            "list_agents", "List agents", "List the agents and what each is for.", _object(), True, _list_agents
        ),
        OfferedTool(
            "ask_agent",
            "Ask an agent",
            "Send a message to an agent and wait for its answer. Give a session to continue it; otherwise a new one is "
            "created. If the answer takes longer than the wait, fetch it with get_run.",
            _object(
                ("message",),
                agent={"type": "string", "description": "`agent` of list_agents."},
                message={"type": "string", "minLength": 1, "maxLength": services.LONGEST_TEXT},
                session=_SESSION,
                wait_seconds=_WAIT,
            ),
            False,
            _ask_agent,
        ),
        OfferedTool(
            "get_run",
            "Get a run",
            "Return the state of a run and, once it has ended, its answer.",
            _object(("run",), run={"type": "string", "description": "`run` of ask_agent."}, wait_seconds=_WAIT),
            True,
            _get_run,
        ),
        OfferedTool(
            "decide_approval",
            "Decide an approval",
            "Decide an approval that a run asks for, if you may. Ask your user first: it is their decision.",
            _object(
                ("approval", "decision"),
                approval={"type": "string", "description": "`approval` of `asks`."},
                decision={"type": "string", "enum": [choice.value for choice in Decision]},
                note={"type": "string", "maxLength": 500, "description": "For the agent."},
            ),
            False,
            _decide_approval,
        ),
        OfferedTool(
            "list_sessions",
            "List sessions",
            "List your own sessions, most recently active first.",
            _object(limit=_LIMIT, query={"type": "string", "description": "Words in the title or in one message."}),
            True,
            _list_sessions,
        ),
        OfferedTool(
            "get_session_history",
            "Get a session's history",
            "Return the latest messages of one of your sessions, oldest first.",
            _object(("session",), session=_SESSION, limit=_LIMIT),
            True,
            _get_session_history,
        ),
    )
}
