"""What a run asks its person, and what came of it, as messages. Pure."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from audit_app.kernel.shorten import one_line
from sessions_app.surfaces.agent_messages import message_types
from sessions_app.surfaces.agent_messages.wire_format import Compact
from tools_app.types import Decision

_LONGEST_TARGET = 160
WITH_FEEDBACK = "deny_with_feedback"

# What an option of a prompt is called by clients, and what it means here.
DECISIONS = {
    "allow_once": Decision.ALLOW_ONCE,
    "allow_for_run": Decision.ALLOW_RUN,
    "allow_always": Decision.ALLOW_ALWAYS,
    "deny": Decision.DENY,
    WITH_FEEDBACK: Decision.DENY,
}
_LABELS = {
    "allow_once": "Allow once",
    "allow_for_run": "Allow for this turn",
    "allow_always": "Always allow",
    "deny": "Deny",
}
_SETTLED = {"expired": "timeout", "cancelled": "cancelled_after_denial"}
_SAID = {
    "allow_once": "allowed once",
    "allow_run": "allowed for this turn",
    "allow_always": "always allowed",
    "deny": "denied",
}


def approval_request(payload: Mapping[str, Any], *, allowed_decisions: Collection[Decision]) -> Compact:
    """Of `approval.requested`. may_say: all that the reader may say; where that is nothing, somebody else has to."""
    request = _request(payload["tool"], payload["arguments"], payload["approval_id"])
    request_id = payload["approval_id"]
    why = f" {payload['reason']}" if payload.get("reason") else ""
    if not allowed_decisions:
        text = f"Waiting for an operator to allow {payload['tool']}.{why}"
        return message_types.update(text, message_types.ACTIVITY, approval_request=request, request_id=request_id)
    options = [
        {"id": name, "label": label}
        for name, label in _LABELS.items()
        if DECISIONS[name] in allowed_decisions and DECISIONS[name].value in payload.get("choices", list(_SAID))
    ]
    asked = message_types.request_input(
        f"May I use {payload['tool']}?{why}", request_id, options=options, variant="warning", tool_approval=request
    )
    response = {"decision": WITH_FEEDBACK, "approval_key": request["approval_key"]}
    asked["d"]["ux"]["free_response"] = {
        "placeholder": "Why not?",
        "submit_label": "Deny with this reason",
        "metadata": {"tool_approval_response": response},
    }
    return asked


def approval_outcome(payload: Mapping[str, Any]) -> Compact:
    """Of `approval.decided`."""
    status, request_id = payload["status"], payload["approval_id"]
    request = _request(payload["tool"], {}, request_id)
    if status == "approved":
        outcome = "auto_approved"
    elif status == "denied":
        outcome = "denied_with_feedback" if payload.get("note") else "denied"
    else:
        outcome = _SETTLED.get(status, "denied")
    said = _SAID.get(payload.get("decision", ""), status)
    more = {key: payload[key] for key in ("decided_by", "decision") if payload.get(key)}
    return message_types.approval_decided(f"{payload['tool']}: {said}", outcome, request_id, request, **more)


def question(payload: Mapping[str, Any]) -> Compact:
    """Of `input.requested`. An option's id is its text: what clients send back is what the agent reads."""
    options = [{"id": option, "label": option} for option in payload.get("options", ())]
    placeholder = "Your answer" if payload.get("allows_text", True) else None
    return message_types.request_input(
        payload["question"],
        payload["request_id"],
        options=options,
        placeholder=placeholder,
        tool_use_id=payload["execution_id"],
    )


def approval_key(tool: str, approval_id: str) -> str:
    """Clients take whatever has the key of a request that was denied for settled, so it names this request alone."""
    return f"{tool}:{approval_id}"


def _request(tool: str, arguments: Mapping[str, Any], approval_id: str) -> dict[str, Any]:
    target = _target(arguments)
    return {
        "tool_name": tool,
        "tool_title": tool,
        "action_summary": f"{tool}: {target}" if target else tool,
        "target": target,
        "approval_key": approval_key(tool, approval_id),
        "input": dict(arguments),
    }


def _target(arguments: Mapping[str, Any]) -> str:
    """What the call is about, on one short line."""
    if len(arguments) == 1 and isinstance(only := next(iter(arguments.values())), str):
        line = only
    else:
        line = json.dumps(dict(arguments), ensure_ascii=False) if arguments else ""
    return one_line(line, _LONGEST_TARGET)
