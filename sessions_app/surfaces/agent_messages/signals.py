"""Signals of clients to a running agent, one function each. Synchronous."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction

from agents_app import selectors as agents
from audit_app.kernel.errors import Conflict, InvalidInput, NotFound
from sessions_app import services
from sessions_app.access import access_approval
from sessions_app.approvals import decisions
from sessions_app.identity import rate_limits
from sessions_app.identity.principal import Principal
from sessions_app.models import Session
from sessions_app.surfaces.agent_messages import (
    agent_runs,
    attached_files,
    child_runs,
    message_types,
    requests,
    run_files,
    run_settings,
    session_writes,
)
from sessions_app.surfaces.agent_messages.agent_runs import AgentRun
from sessions_app.surfaces.agent_messages.input_requests import DECISIONS, WITH_FEEDBACK, approval_key
from sessions_app.surfaces.agent_messages.projection import COMPLETE, TERMINATE
from sessions_app.surfaces.agent_messages.requests import UserInput
from sessions_app.surfaces.agent_messages.session_writes import UserMessage
from tools_app import selectors as tools
from tools_app.types import ApprovalStatus, ApprovalView

_FROM_NEXT_TURN = "The change applies from the next turn on."
_DECIDED = "The decision was stored."
_STOP = {"message": "string", "client_message_id": "string", "metadata": "object", "auth_token": "string"}


@dataclass(frozen=True)
class SignalResult:
    """The answer to a signal.

    message: shown to users.
    status: `success`, or `ignored` for a signal without effect.
    """

    message: str
    status: str = "success"


class RunEnded(Conflict):
    """This run has ended. Restart it, then send again."""

    code = "run_ended"


def send(principal: Principal, run: AgentRun, name: str, body: Any) -> SignalResult:
    """Send a signal to a run.

    Raises InvalidInput (unknown_signal, or an invalid body), MissingScope, RunEnded, and what `receive` and `decide`
    raise.
    """
    principal.require_write()
    if name not in _SIGNALS:
        raise InvalidInput(f"There is no signal {name!r}. Available: {', '.join(_SIGNALS)}.", code="unknown_signal")
    return _SIGNALS[name](principal, run, body)


def terminate(principal: Principal, run: AgentRun, reason: str) -> SignalResult:
    """End the run with status "cancelled". Idempotent."""
    if run.is_terminal:
        return SignalResult(f"The run had already ended: {run.status}.")
    end(run, "cancelled", reason)
    return SignalResult("The run was terminated.")


def end(run: AgentRun, status: str, reason: str = "") -> None:
    """Store the last status of a run and cancel its open turns.

    The message that closes the run's streams is its last one: an open turn ends with it.
    """
    session, open_runs = run.session, agents.list_open_runs(run.session.id)
    is_cancelled = status == "cancelled"
    with transaction.atomic():
        agent_runs.store_end(session, status)
        if open_runs:
            signal = TERMINATE if is_cancelled else COMPLETE
            session_writes.note_signal(session, open_runs[0].id, signal, reason=reason)
        else:
            message = message_types.terminated(reason) if is_cancelled else message_types.complete("")
            session_writes.post_message(session, message)
    services.cancel_session_runs(session, reason=reason or "The run was ended by its client.")


def _user_input(principal: Principal, run: AgentRun, body: Any) -> SignalResult:
    sent, session = requests.read_user_input(body), run.session
    if run.is_terminal:
        raise RunEnded
    may_decide = bool(sent.request_id) or sent.text.strip() in DECISIONS
    if may_decide and sent.ack and session_writes.is_acknowledged(session, sent.ack):
        return SignalResult(_DECIDED)
    if may_decide and (approval := _approval_of(principal, session, sent)):
        return _decide(principal, session, approval, sent)
    if sent.workstream and not sent.request_id:
        return _write_to(principal, run, sent)
    if run.metadata.get("status"):
        agent_runs.update_metadata(session, status="")
    noted = {"metadata": dict(sent.metadata), "tool_approval_response": sent.metadata.get("tool_approval_response")}
    note = {key: value for key, value in noted.items() if value}
    answers, act = _question_of(session, sent), lambda accepted: run_files.mark_consumed(session)
    uploaded, has_files = run_files.list_fresh(session)
    with attached_files.attached(principal.user, session, sent.text, sent.metadata, uploaded) as files:
        # The same for a repetition, for which no file is fresh.
        given: dict[str, Any] = {"files": files.ids, "files_digest": "uploaded" if has_files else files.digest}
        message = UserMessage(sent.text, sent.ack, sent.ack, note, act=act, answers=answers, **given)
        session_writes.send_user_message(principal, session, message)
    return SignalResult("The agent has the message.")


def _write_to(principal: Principal, run: AgentRun, sent: UserInput) -> SignalResult:
    """Send the message to a workstream. It interrupts nothing."""
    child_id = child_runs.find_child(run, sent.workstream)
    rate_limits.take(rate_limits.chat_limit(), principal.actor)
    services.ask_workstream(run.session, child_id, sent.text, actor=principal.actor, key=sent.ack)
    return SignalResult("The workstream has the message.")


def _question_of(session: Session, sent: UserInput) -> UUID | None:
    """Return the id of the question that the message answers, or None if it names none that is open."""
    try:
        question = tools.find_question(session.id, UUID(sent.request_id)) if sent.request_id else None
    except ValueError:
        return None
    return question.id if question else None


def _approval_of(principal: Principal, session: Session, sent: UserInput) -> ApprovalView | None:
    """Return the approval request that the message answers, or None."""
    if sent.request_id:
        try:
            approval = access_approval(principal.user, UUID(sent.request_id))
        except (NotFound, ValueError):
            return None  # the id of a question, or unknown
        return approval if approval.session_id == session.id else None
    pending = tools.list_approvals(status=ApprovalStatus.PENDING.value, session_ids=[session.id], limit=2)
    if len(pending) != 1:
        return None
    return access_approval(principal.user, pending[0].id)


def _decide(principal: Principal, session: Session, approval: ApprovalView, sent: UserInput) -> SignalResult:
    """Store the decision and its message in one transaction. Raises AlreadyDecided, ApprovalExpired."""
    text = sent.text.strip()
    choice = sent.decision or (text if text in DECISIONS else WITH_FEEDBACK)
    decision = DECISIONS.get(choice)
    if decision is None:
        known = ", ".join(DECISIONS)
        raise InvalidInput(f"Unknown decision {choice!r}. Available: {known}.", code="unknown_decision")
    access_approval(principal.user, approval.id, decision=decision.value)
    note = text if choice == WITH_FEEDBACK and text not in DECISIONS else ""
    request_id = str(approval.id)
    response = {"decision": choice, "approval_key": approval_key(approval.tool, request_id)}
    more = {"tool_approval_response": response}
    question = message_types.question(text, ack=sent.ack, metadata=sent.metadata, request_id=request_id, more=more)
    decider: Any = {"actor": principal.actor, "has_fresh_login": principal.has_fresh_login}
    decisions.check_login(approval, decision=decision.value, **decider)
    with transaction.atomic():
        decisions.decide(approval.id, decision=decision.value, note=note, **decider)
        session_writes.post_message(session, question)
    return SignalResult(_DECIDED)


def _stop(principal: Principal, run: AgentRun, body: Any) -> SignalResult:
    """Cancel the open turns. The run stays usable."""
    ack, session = requests.checked(body, _STOP).get("client_message_id", ""), run.session
    if open_runs := agents.list_open_runs(session.id):
        session_writes.note_signal(session, open_runs[0].id, "Stop", ack=ack)
        services.cancel_session_runs(session, reason="Stopped.")
        return SignalResult("The agent is stopping.")
    is_repeated = ack and (session_writes.is_acknowledged(session, ack) or session_writes.is_signalled(session, ack))
    if not run.is_terminal and not is_repeated:
        session_writes.post_message(session, message_types.stopped("", ack=ack))
    return SignalResult("The agent was not working.")


def _file(
    work: Callable[[Principal, Session, Any], str], principal: Principal, run: AgentRun, body: Any
) -> SignalResult:
    return SignalResult(work(principal, run.session, body))


def _disable_servers(principal: Principal, run: AgentRun, body: Any) -> SignalResult:
    """Withdraw the tools of these MCP servers from the agent, from the next turn on."""
    changes = requests.checked(body, {"disabled_mcp_collections": "array"})
    if changes:
        agent_runs.update_metadata(run.session, request={**run.request, **changes})
    return SignalResult(_FROM_NEXT_TURN)


def _change_model(principal: Principal, run: AgentRun, body: Any) -> SignalResult:
    """Use another model from the next turn on; null is the agent's own."""
    given = requests.as_object(body)
    changes = {**given, **requests.checked(body, {"model": "string", "effort": "string"})}
    return _change(principal, run, {"config": {**(run.request.get("config") or {}), **changes}})


def _change_approval_mode(principal: Principal, run: AgentRun, body: Any) -> SignalResult:
    wanted = requests.checked(body, {"mode": "string"}).get("mode", "")
    if wanted not in requests.MODES:
        message = f"`mode` must be one of: {', '.join(requests.MODES)}."
        raise InvalidInput(message, code="invalid_value", param="mode")
    mode = run_settings.mode_in_force(run.session.agent, wanted)
    with transaction.atomic():
        run_settings.apply_mode(run.session, mode)
        return _change(principal, run, {"tool_approval_mode": mode})


def _change(principal: Principal, run: AgentRun, changes: dict[str, Any]) -> SignalResult:
    """Store settings of the run, if the caller may choose them. Raises what `run_settings.check` raises."""
    request = {**run.request, **changes}
    requests.options_of(request)
    run_settings.check(principal.user, run.session.agent, request)
    agent_runs.update_metadata(run.session, request=request)
    return SignalResult(_FROM_NEXT_TURN)


def _compact(principal: Principal, run: AgentRun, body: Any) -> SignalResult:
    """Summarise the earlier messages, after the open turns."""
    requests.checked(body, {"reason": "string"})
    if run.is_terminal:
        raise RunEnded
    try:
        services.compact_session(run.session, actor=principal.actor)
    except Conflict as nothing:
        return SignalResult(nothing.message, status="ignored")
    return SignalResult("The agent summarises the earlier messages.")


_SIGNALS: dict[str, Callable[[Principal, AgentRun, Any], SignalResult]] = {
    "UserInput": _user_input,
    "Stop": _stop,
    "FileUploaded": partial(_file, run_files.file_uploaded),
    "FileRemoved": partial(_file, run_files.file_removed),
    "FileBatchClosed": partial(_file, run_files.batch_closed),
    "McpConfigChanged": _disable_servers,
    "ModelConfigChanged": _change_model,
    "ToolApprovalModeChanged": _change_approval_mode,
    "TriggerCheckpoint": _compact,
}
