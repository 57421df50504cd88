"""Requests to a person as interrupts of a run, and their answers."""

from collections.abc import Mapping
from typing import Any

from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.base.function_tools import call_id_of, invalid_param
from tools_app.events import APPROVAL_REQUESTED, INPUT_REQUESTED
from tools_app.types import Decision
from tools_app.types.questions import NO_ANSWER

_TEXT = {"type": "string"}
_APPROVAL = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "decision": {"enum": [decision.value for decision in Decision]},
        "note": _TEXT,
    },
    "required": ["approved"],
}


def interrupt_of(event: SessionEvent) -> dict[str, Any] | None:
    """Return the interrupt of an event that asks a person, None for any other event."""
    if event.type == APPROVAL_REQUESTED.name:
        asked = APPROVAL_REQUESTED.payload(event)
        message = f"May I use {asked['tool']}? {asked['reason']}".strip()
        return _interrupt(asked, asked["approval_id"], "tool_call", message, _APPROVAL)
    if event.type != INPUT_REQUESTED.name:
        return None
    question = INPUT_REQUESTED.payload(event)
    forms = question.get("questions") or []
    answer: dict[str, Any] = dict(_TEXT)
    if len(forms) <= 1 and question["options"] and not question["allows_text"]:
        answer = {"enum": question["options"]}
    if len(forms) > 1:
        answer = {"type": "array", "items": _TEXT, "minItems": len(forms), "maxItems": len(forms)}
    schema = {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}
    return _interrupt(question, question["request_id"], "input_required", question["question"], schema)


def _interrupt(asked: Mapping[str, Any], ask_id: str, reason: str, message: str, schema: Any) -> dict[str, Any]:
    return {
        "id": ask_id,
        "reason": reason,
        "message": message,
        "toolCallId": call_id_of(asked["execution_id"]),
        "responseSchema": schema,
        "expiresAt": asked["expires_at"],
    }


def decision_of(payload: Any) -> tuple[str, str]:
    """Return the decision on an approval and its note. payload: None if the user made none. Raises InvalidInput."""
    if payload is None:
        return Decision.DENY.value, ""
    fields = payload if isinstance(payload, Mapping) else {}
    approved, note = fields.get("approved"), fields.get("note") or ""
    allows = Decision.ALLOW_ONCE.value if approved else Decision.DENY.value
    decision = fields.get("decision") or allows
    is_fit = isinstance(approved, bool) and isinstance(note, str) and isinstance(decision, str)
    if not is_fit or approved is (decision == Decision.DENY.value):
        raise invalid_param("The payload must have `approved`, true or false.", "resume", "invalid_payload")
    return decision, note


def answer_of(payload: Any) -> str:
    """Return the text that answers a question. payload: None if the user gave no answer. Raises InvalidInput."""
    answer = payload.get("answer") if isinstance(payload, Mapping) else payload
    given = answer if isinstance(answer, list) else [NO_ANSWER if payload is None else answer]
    lines = [line for line in given if isinstance(line, str) and line.strip()]
    if not lines or len(lines) < len(given):
        raise invalid_param(
            "The payload must have `answer`, as the interrupt's responseSchema has it.", "resume", "invalid_payload"
        )
    return "\n".join(" ".join(line.split()) for line in lines) if len(lines) > 1 else lines[0]
