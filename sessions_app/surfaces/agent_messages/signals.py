"""Signals: what clients tell a running agent. Each has one function here. Synchronous."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction

from agents_app import selectors as agents
from audit_app import services as audit
from audit_app.kernel.errors import Conflict, InvalidInput, NotFound
from sessions_app import events, services
from sessions_app.access import access_approval
from sessions_app.approvals import decisions
from sessions_app.conversation.sessions import event_about
from sessions_app.identity.principal import Principal
from sessions_app.identity.request_admission import ReadOnlyKey
from sessions_app.models import Session
from sessions_app.surfaces.agent_messages import (
    agent_runs,
    input_requests,
    message_types,
    requests,
    run_files,
    session_writes,
)
from sessions_app.surfaces.agent_messages.agent_runs import AgentRun
from sessions_app.surfaces.agent_messages.projection import COMPLETE, TERMINATE
from sessions_app.surfaces.agent_messages.requests import UserInput
from tools_app import selectors as tools
from tools_app.types import ApprovalStatus, ApprovalView

DONE, IGNORED = "success", "ignored"
_DECIDED = "The decision is made."
_STOP = {"message": "text", "client_message_id": "text", "metadata": "object", "auth_token": "text"}


@dataclass(frozen=True)
class Outcome:
    """status: `success`, or `ignored` for what is understood and has no effect here; message: for people."""

    message: str
    status: str = DONE


class RunEnded(Conflict):
    """This run has ended. Restart it, then send again."""

    code = "run_ended"


def send(principal: Principal, run: AgentRun, name: str, body: Any) -> Outcome:
    """Raises InvalidInput (unknown_signal and what is wrong with the payload), RunEnded, and what the parts raise."""
    if not principal.can_write:
        raise ReadOnlyKey
    work = _SIGNALS.get(name)
    if work is None:
        raise InvalidInput(f"There is no signal {name!r}. Known: {', '.join(_SIGNALS)}.", code="unknown_signal")
    return work(principal, run, body)


def terminate(principal: Principal, run: AgentRun, reason: str) -> Outcome:
    """End the run for good, from outside."""
    if run.is_terminal:
        return Outcome(f"The run had ended already: {run.status}.")
    end(run, "cancelled", reason)
    return Outcome("The run is terminated.")


def end(run: AgentRun, status: str, reason: str = "") -> None:
    """Give the run its last status: what it works on is stopped, its viewers are told. The message that closes it is
    the last one: where a turn is under way, that turn ends with it."""
    session, open_runs = run.session, agents.list_open_runs(run.session.id)
    is_cancelled = status == "cancelled"
    with transaction.atomic():
        agent_runs.end(session, status)
        if open_runs:
            _note(session, open_runs[0].id, TERMINATE if is_cancelled else COMPLETE, reason=reason)
        else:
            session_writes.post(
                session, message_types.terminated(reason) if is_cancelled else message_types.complete("")
            )
    services.cancel_session_runs(session, reason=reason or "The run was ended by its client.")


def _user_input(principal: Principal, run: AgentRun, body: Any) -> Outcome:
    said, session = requests.read_user_input(body), run.session
    if run.is_terminal:
        raise RunEnded
    may_decide = bool(said.request_id) or said.text.strip() in input_requests.DECISIONS
    if may_decide and said.ack and session_writes.is_acknowledged(session, said.ack):
        return Outcome(_DECIDED)
    if may_decide and (approval := _approval_of(principal, session, said)):
        return _decide(principal, session, approval, said)
    if run.kept.get("status"):
        agent_runs.change(session, status="")
    note = {key: value for key, value in (("metadata", dict(said.metadata)),) if value}
    response = said.metadata.get("tool_approval_response")
    if response:
        note["tool_approval_response"] = response
    session_writes.say(
        principal, session, said.text, ack=said.ack, key=said.ack, note=note, act=partial(run_files.consume, session)
    )
    return Outcome("The agent has the message.")


def _approval_of(principal: Principal, session: Session, said: UserInput) -> ApprovalView | None:
    """The request for approval that the words answer, if they do."""
    if said.request_id:
        try:
            approval = access_approval(principal.user, UUID(said.request_id), to_decide=True)
        except (NotFound, ValueError):
            return None  # a question, or nothing of ours
        return approval if approval.session_id == session.id else None
    waiting = tools.list_approvals(status=ApprovalStatus.PENDING.value, session_ids=[session.id], limit=2)
    if len(waiting) != 1:
        return None
    return access_approval(principal.user, waiting[0].id, to_decide=True)


def _decide(principal: Principal, session: Session, approval: ApprovalView, said: UserInput) -> Outcome:
    """The decision is made and told in one transaction. Raises AlreadyDecided, ApprovalExpired."""
    text = said.text.strip()
    choice = said.decision or (text if text in input_requests.DECISIONS else input_requests.WITH_FEEDBACK)
    decision = input_requests.DECISIONS.get(choice)
    if decision is None:
        raise InvalidInput(f"A decision is one of {', '.join(input_requests.DECISIONS)}.", code="unknown_decision")
    note = text if choice == input_requests.WITH_FEEDBACK and text not in input_requests.DECISIONS else ""
    key = input_requests.approval_key(approval.tool, str(approval.id))
    question = message_types.question(
        text,
        ack=said.ack,
        metadata=said.metadata,
        request_id=str(approval.id),
        more={"tool_approval_response": {"decision": choice, "approval_key": key}},
    )
    with transaction.atomic():
        decisions.decide(approval.id, decision=decision.value, actor=principal.actor, note=note)
        session_writes.post(session, question)
    return Outcome(_DECIDED)


def _stop(principal: Principal, run: AgentRun, body: Any) -> Outcome:
    """Interrupts the turn; the run stays usable."""
    told, session = requests.checked(body, _STOP), run.session
    ack = told.get("client_message_id", "")
    open_runs = agents.list_open_runs(session.id)
    if open_runs:
        _note(session, open_runs[0].id, "Stop", ack=ack)
        services.cancel_session_runs(session, reason="Stopped.")
        return Outcome("The agent is being stopped.")
    if not run.is_terminal and not (ack and _is_stop_known(session, ack)):
        session_writes.post(session, message_types.stopped("", ack=ack))
    return Outcome("The agent was not at work.")


def _is_stop_known(session: Session, ack: str) -> bool:
    """Whether that stop was carried out before."""
    return session_writes.is_acknowledged(session, ack) or session_writes.is_signalled(session, ack)


def _note(session: Session, run_id: UUID, signal: str, *, ack: str = "", reason: str = "") -> None:
    """Tell why a run is about to end, before it does: its last message says so."""
    payload: events.SignalReceived = {"signal": signal, "ack": ack, "reason": reason}
    with transaction.atomic():
        audit.emit([event_about(session, events.SIGNAL_RECEIVED, payload, run_id=run_id)])


def _files(work: Callable[[Principal, Session, Any], str]) -> "_Signal":
    def send_on(principal: Principal, run: AgentRun, body: Any) -> Outcome:
        return Outcome(work(principal, run.session, body))

    return send_on


def _without_effect(why: str) -> "_Signal":
    def ignore(principal: Principal, run: AgentRun, body: Any) -> Outcome:
        requests.as_object(body)
        return Outcome(why, IGNORED)

    return ignore


def _disable_servers(principal: Principal, run: AgentRun, body: Any) -> Outcome:
    """From the next turn on, the agent is not offered the tools of these MCP servers."""
    told = requests.checked(body, {"disabled_mcp_collections": "list"})
    if "disabled_mcp_collections" in told:
        request = {**run.kept.get("request", {}), "disabled_mcp_collections": told["disabled_mcp_collections"]}
        agent_runs.change(run.session, request=request)
    return Outcome("It counts from the next turn on.")


_Signal = Callable[[Principal, AgentRun, Any], Outcome]
_SIGNALS: dict[str, _Signal] = {
    "UserInput": _user_input,
    "Stop": _stop,
    "FileUploaded": _files(run_files.uploaded),
    "FileRemoved": _files(run_files.removed),
    "FileBatchClosed": _files(run_files.batch_closed),
    "McpConfigChanged": _disable_servers,
    "ModelConfigChanged": _without_effect("The agent answers with the model it is set up with."),
    "ToolApprovalModeChanged": _without_effect("What has to be approved is set up with the agent."),
    "TriggerCheckpoint": _without_effect("The agent keeps its context within the model's limit by itself."),
}
