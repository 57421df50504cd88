"""Messages to agents: ask, follow, answer what a run asks, read the result."""

from typing import Any
from uuid import UUID

from django.conf import settings
from mcp.shared.exceptions import MCPError

from agents_app import selectors as agents
from agents_app.types import RunStatus, RunTranscript
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import InvalidInput
from audit_app.kernel.ids import new_id
from audit_app.kernel.redact import masked_arguments
from sessions_app import selectors, services
from sessions_app.access import access_agent, access_approval, access_run, access_session
from sessions_app.approvals import decisions, permissions
from sessions_app.conversation.citations import for_people
from sessions_app.conversation.workstreams import name_of_asker
from sessions_app.identity import rate_limits
from sessions_app.identity.actor_names import display_name
from sessions_app.identity.principal import Principal
from sessions_app.live_view.viewer import wait_until_ended
from sessions_app.services import Accepted, NewMessage
from sessions_app.surfaces.base.intake_limit import store_message
from sessions_app.surfaces.mcp.calls import Call
from sessions_app.surfaces.mcp.offers.caller_sessions import SESSION
from sessions_app.surfaces.mcp.offers.run_asks import apply, forms
from sessions_app.surfaces.mcp.offers.run_reports import reporting
from sessions_app.surfaces.mcp.registry import Tool, parameters_of, tools
from tools_app import selectors as tool_calls
from tools_app.events import APPROVAL_REQUESTED, INPUT_REQUESTED
from tools_app.types import Decision
from tools_app.types.questions import text_of

_ASKING = (APPROVAL_REQUESTED.name, INPUT_REQUESTED.name)
_ENDED = frozenset(status.value for status in RunStatus if status.is_terminal)
_HOW_TO_ANSWER = "Answer a question by ask_agent in its session, an approval by decide_approval; then call get_run."


async def _ask_agent(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    seconds = arguments.get("wait_seconds", settings.KOMAND_WAIT_SECONDS)
    if call.state:  # the message was stored in the first round
        return await _get_run(call, {"run": call.state, "wait_seconds": seconds})
    accepted = await store_message(_accept, call.principal, arguments)
    async with reporting(call, accepted.session_id):
        await _wait(accepted.session_id, accepted.run_id, seconds)
        return await _result(call, accepted.session_id, accepted.run_id, accepted.session_key, seconds)


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


async def _begin(call: Call, arguments: dict[str, Any]) -> str:
    accepted = await store_message(_accept, call.principal, arguments)
    return str(accepted.run_id)


async def _get_run(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    run = await in_db(access_run, call.principal.user, arguments["run"])
    session = await in_db(access_session, call.principal.user, run.conversation_id)
    async with reporting(call, session.pk):
        return await _result(call, session.pk, run.id, session.key, arguments.get("wait_seconds", 0))


async def _result(call: Call, session_id: UUID, run_id: UUID, key: str, seconds: int) -> dict[str, Any]:
    """Return the outcome of a run, after its wait, and after what the client's user answers meanwhile."""
    outcome, has_waited = await in_db(outcome_of, call.principal, run_id, key), False
    while outcome["status"] not in _ENDED:
        if "asks" in outcome:
            if not await _is_answered(call, outcome["asks"], session_id, run_id):
                break
        elif has_waited or not seconds:
            break
        has_waited = "asks" not in outcome
        await _wait(session_id, run_id, seconds)
        outcome = await in_db(outcome_of, call.principal, run_id, key)
    return outcome


async def _wait(session_id: UUID, run_id: UUID, seconds: int) -> None:
    """Wait until the run has ended or asks a person, at most as long as the installation allows."""
    await wait_until_ended(session_id, run_id, min(seconds, settings.KOMAND_WAIT_SECONDS), stops_at=_ASKING)


async def _is_answered(call: Call, asks: list[dict[str, Any]], session_id: UUID, run_id: UUID) -> bool:
    """Ask the client's user what the run asks, and return whether the run goes on with an answer."""
    if not (call.can_ask() and call.principal.can_write):
        return False
    try:
        answers = await call.ask(await in_db(forms, asks, session_id), state=str(run_id))
    except MCPError:
        return False  # the client refused, or its user did not answer in time: the asks are in the result
    return await in_db(apply, call.principal, session_id, answers)


def outcome_of(principal: Principal, run_id: UUID, session_key: str) -> dict[str, Any]:
    """Return the state of a run, what it asks, and its answer once it has ended. Synchronous."""
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
            "asked_by": name_of_asker(asked) or asked.agent_id,
            "tool": asked.tool,
            "arguments": masked_arguments(asked.arguments),
            "reason": asked.reason,
            "expires_at": asked.expires_at.isoformat(),
            "decisions": [choice.value for choice in asked.choices if choice in allowed and principal.can_write],
        }
        for asked in tool_calls.list_approvals(status="pending", session_ids=[session_id])
    ]


def _questions(session_id: UUID) -> list[dict[str, Any]]:
    """Return the question that a message to the session answers. The next one follows it."""
    asked = tool_calls.find_question(session_id)
    if asked is None:
        return []
    return [{"kind": "question", "text": text_of(asked.questions), "expires_at": asked.expires_at.isoformat()}]


async def _decide_approval(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    return await in_db(_decide, call.principal, **arguments)


def _decide(principal: Principal, approval: str, decision: str, note: str = "") -> dict[str, Any]:
    asked = access_approval(principal.user, approval, decision=decision)
    fresh = principal.has_fresh_login
    decided = decisions.decide(asked.id, decision=decision, actor=principal.actor, has_fresh_login=fresh, note=note)
    return {"approval": str(decided.id), "status": decided.status.value}


_WAIT = {"type": "integer", "minimum": 0, "description": "Maximum time to wait for the answer, in seconds."}
tools.register(
    Tool(
        "ask_agent",
        "Ask an agent",
        "Send a message to an agent and wait for its answer. Give a session to continue it; otherwise a new one is "
        "created. If the answer takes longer than the wait, fetch it with get_run.",
        parameters_of(
            ("message",),
            agent={"type": "string", "description": "`agent` of list_agents."},
            message={"type": "string", "minLength": 1, "maxLength": services.LONGEST_TEXT},
            session=SESSION,
            wait_seconds=_WAIT,
        ),
        False,
        _ask_agent,
        begin=_begin,
    )
)
tools.register(
    Tool(
        "get_run",
        "Get a run",
        "Return the state of a run and, once it has ended, its answer.",
        parameters_of(("run",), run={"type": "string", "description": "`run` of ask_agent."}, wait_seconds=_WAIT),
        True,
        _get_run,
    )
)
tools.register(
    Tool(
        "decide_approval",
        "Decide an approval",
        "Decide an approval that a run asks for, if you may. Ask your user first: it is their decision.",
        parameters_of(
            ("approval", "decision"),
            approval={"type": "string", "description": "`approval` of `asks`."},
            decision={"type": "string", "enum": [choice.value for choice in Decision]},
            note={"type": "string", "maxLength": 500, "description": "For the agent."},
        ),
        False,
        _decide_approval,
    )
)
