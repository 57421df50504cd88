"""Approval requests, their decisions, and questions to the user, as messages. Pure."""

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from audit_app.kernel.safe_text import visible
from audit_app.kernel.shorten import one_line
from sessions_app.surfaces.agent_messages import message_types
from sessions_app.surfaces.agent_messages.wire_format import Compact
from tools_app.events import ApprovalDecided, ApprovalRequested, InputRequested
from tools_app.types import Decision
from tools_app.types.questions import Option, Question, plain_options, text_of

_LONGEST_TARGET = 160
WITH_FEEDBACK = "deny_with_feedback"

# Decisions by the id of the option that clients send.
DECISIONS = {
    "allow_once": Decision.ALLOW_ONCE,
    "allow_for_run": Decision.ALLOW_RUN,
    "allow_always": Decision.ALLOW_ALWAYS,
    "deny": Decision.DENY,
    WITH_FEEDBACK: Decision.DENY,
}
_OPTION_LABELS = {
    "allow_once": "Allow once",
    "allow_for_run": "Allow for this turn",
    "allow_always": "Always allow",
    "deny": "Deny",
}
_DECISION_LABELS = {
    Decision.ALLOW_ONCE.value: "allowed once",
    Decision.ALLOW_RUN.value: "allowed for this turn",
    Decision.ALLOW_ALWAYS.value: "always allowed",
    Decision.DENY.value: "denied",
}
# Clients read `auto_approved` as settled without an answer of theirs.
_OUTCOMES = {"approved": "auto_approved", "expired": "timeout", "cancelled": "cancelled_after_denial"}


def approval_request(payload: ApprovalRequested, *, allowed_decisions: Collection[Decision]) -> Compact:
    """Return the message of `approval.requested`: without options if the viewer has no allowed decision."""
    request = _request(payload["tool"], payload["arguments"], payload["approval_id"])
    request_id = payload["approval_id"]
    reason = f" {payload['reason']}" if payload["reason"] else ""
    if not allowed_decisions:
        text = f"Waiting for an operator to allow {payload['tool']}.{reason}"
        return message_types.update(text, message_types.ACTIVITY, approval_request=request, request_id=request_id)
    options = [
        {"id": name, "label": label}
        for name, label in _OPTION_LABELS.items()
        if DECISIONS[name] in allowed_decisions and DECISIONS[name].value in payload["choices"]
    ]
    response = {"decision": WITH_FEEDBACK, "approval_key": request["approval_key"]}
    return message_types.request_input(
        f"May I use {payload['tool']}?{reason}",
        request_id,
        options=options,
        free_response={
            "placeholder": "Why not?",
            "submit_label": "Deny with this reason",
            "metadata": {"tool_approval_response": response},
        },
        variant="warning",
        tool_approval=request,
    )


def approval_outcome(payload: ApprovalDecided) -> Compact:
    """Return the message of `approval.decided`."""
    tool, status, request_id = payload["tool"], payload["status"], payload["approval_id"]
    is_with_feedback = status == "denied" and payload["note"]
    decided = {"decided_by": payload["decided_by"], "decision": payload["decision"]}
    return message_types.update(
        f"{tool}: {_DECISION_LABELS.get(payload['decision'], status)}",
        message_types.ACTIVITY,
        approval_decision="denied_with_feedback" if is_with_feedback else _OUTCOMES.get(status, "denied"),
        approval_request=_request(tool, {}, request_id),
        request_id=request_id,
        **{key: value for key, value in decided.items() if value},
    )


def question(payload: InputRequested) -> Compact:
    """Return the message of `input.requested`. Clients send the ids of the chosen options back as the answer.

    Several questions are a text: these clients have no form for them.
    """
    questions = _questions(payload)
    form, one = len(questions) > 1, questions[0]
    has_text = payload["allows_text"] or form
    return message_types.request_input(
        text_of(questions) if form else one.text,
        payload["request_id"],
        options=() if form else [_option(option) for option in one.options],
        free_response={"placeholder": (not form and one.placeholder) or "Your answer"} if has_text else None,
        variant=one.variant,
        is_multiple=one.allows_several and not form,
        tool_use_id=payload["execution_id"],
    )


def _questions(payload: InputRequested) -> list[Question]:
    if asked := payload.get("questions"):
        return [Question.from_json(each) for each in asked]
    # A release before stored none.
    return [Question(payload["question"], plain_options(payload["options"]), payload["allows_text"])]


def _option(option: Option) -> dict[str, str]:
    shown = {"id": option.id, "label": option.label}
    return {**shown, "description": option.description} if option.description else shown


def approval_key(tool: str, approval_id: str) -> str:
    """Return a key of this request alone: clients treat every request with the key of a denied one as settled."""
    return f"{tool}:{approval_id}"


def _request(tool: str, arguments: Mapping[str, Any], approval_id: str) -> dict[str, Any]:
    line = _one_line(arguments)
    return {
        "tool_name": tool,
        "tool_title": tool,
        "action_summary": f"{tool}: {line}" if line else tool,
        "target": _target(arguments, line),
        "approval_key": approval_key(tool, approval_id),
        "input": dict(arguments),
    }


def _target(arguments: Mapping[str, Any], line: str) -> str:
    """Return the call's arguments as `name: value`.

    Clients leave out everything up to the first colon, and render the rest as Markdown: in code, none of it is hidden.
    """
    name = next(iter(arguments)) if len(arguments) == 1 else "arguments"
    return f"{name.replace(':', ' ')}: {_code(line)}" if line else ""


def _code(text: str) -> str:
    """Return the text as Markdown of code, with marks that the text cannot close."""
    marks = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{marks} {text} {marks}" if len(marks) > 1 else f"`{text}`"


def _one_line(arguments: Mapping[str, Any]) -> str:
    """Return a summary of the call's arguments on one short line."""
    if len(arguments) == 1 and isinstance(only := next(iter(arguments.values())), str):
        return one_line(visible(only), _LONGEST_TARGET)
    return one_line(visible(json.dumps(dict(arguments), ensure_ascii=False)) if arguments else "", _LONGEST_TARGET)
