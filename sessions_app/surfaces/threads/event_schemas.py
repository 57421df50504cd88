"""Declaration of the stream's events: a JSON Schema for the data of each. Pure.

`manage.py describe_thread_events` prints them for the docs; tests validate every event that is sent.
"""

from dataclasses import dataclass, field
from typing import Any

Schema = dict[str, Any]

UUID: Schema = {"type": "string", "format": "uuid"}
TIME: Schema = {"type": "string", "format": "date-time"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TEXT: Schema = {"type": "string"}
_NOTHING: Schema = {}
STATUSES = ("running", "success", "error", "canceled")


def object_of(required: Schema, optional: Schema = _NOTHING) -> Schema:
    return {"type": "object", "properties": {**required, **optional}, "required": list(required)}


@dataclass(frozen=True)
class EventKind:
    """An event name with the schema of its data.

    fields: properties of the data.
    optional: names that may be absent.
    """

    name: str
    description: str
    fields: Schema
    optional: frozenset[str] = field(default_factory=frozenset)

    def schema(self) -> Schema:
        """Return the JSON Schema of its data. Clients should ignore fields that they do not know."""
        return {
            "title": self.name,
            "description": self.description,
            "type": "object",
            "properties": self.fields,
            "required": [name for name in self.fields if name not in self.optional],
        }


_MESSAGE = {
    "id": {**UUID, "description": "the message"},
    "message_id": {**UUID, "description": "the same as `id`"},
    "seq": {"type": "string", "pattern": "^[0-9]+-[0-9]+$", "description": "the entry id, as in the `id:` line"},
    "ts": TIME,
}
_PART = {**_MESSAGE, "part_id": {**UUID, "description": "as in the stored message"}}
_START = {**_PART, "restarted": {"type": "boolean", "description": "discard the text of this part: it begins again"}}
_DELTA = {**_PART, "delta": {"type": "string", "minLength": 1}}
_CHOICES: Schema = {"type": "array", "items": TEXT, "description": "decisions that you may send"}
_APPROVAL: Schema = {
    "type": "object",
    "description": "while an approval is pending: POST /api/approvals/<approval_id>/decide",
    **object_of({"approval_id": UUID, "choices": _CHOICES, "reason": TEXT, "expires_at": TIME}),
}
_STEP = {
    **_MESSAGE,
    "id": {**UUID, "description": "the step, in each snapshot of it"},
    "tool_call_id": {"type": "string"},
    "name": {"type": "string", "description": "name of the tool"},
    "kind": {"enum": ["tool_call"]},
    "args": {"type": ["object", "string", "null"]},
    "detail": {"type": ["string", "null"], "description": "result, error, progress, or what it waits for"},
    "status": {"enum": list(STATUSES)},
    "start_time": TIME,
    "end_time": {"anyOf": [TIME, {"type": "null"}]},
    "duration_ms": {"type": ["integer", "null"]},
    "approval": _APPROVAL,
}
CITATION = object_of(
    {"chunk_id": UUID, "quote": TEXT, "start_char": COUNT, "length": COUNT},
    {"document_name": TEXT, "materialized_path": TEXT},
)
USAGE = object_of({"input_tokens": COUNT, "output_tokens": COUNT})

_STATE = "The present state of a tool call: requested, waiting for approval or input, running, ended."
_ENDED = "The answer has ended and is stored. `waiting`: it ends with a question, which the next user_message answers."
_ENDINGS = ["completed", "incomplete", "canceled", "failed", "waiting"]
_REPLAYED = "After a resume: all missed events were sent; the following are live."
_NOT_STREAMING = "The message of `last_message_id` has ended or is unknown: read it from the list of messages."

KINDS: tuple[EventKind, ...] = (
    EventKind("message_start", "The answer begins.", _MESSAGE),
    EventKind("reasoning_start", "The model's reasoning begins.", _START, frozenset({"restarted"})),
    EventKind("reasoning_delta", "A piece of the reasoning.", _DELTA),
    EventKind("reasoning_end", "The reasoning is complete.", _PART),
    EventKind("text_start", "A text of the answer begins.", _START, frozenset({"restarted"})),
    EventKind("text_delta", "A piece of the text.", _DELTA),
    EventKind("text_end", "The text is complete.", _PART),
    EventKind("step", _STATE, _STEP, frozenset({"approval"})),
    EventKind("citations", "Citations in the answer.", {**_MESSAGE, "citations": {"type": "array", "items": CITATION}}),
    EventKind("error", "The run failed. Text that was sent before remains.", {**_MESSAGE, "error": TEXT, "code": TEXT}),
    EventKind("message_end", _ENDED, {**_MESSAGE, "status": {"enum": _ENDINGS}, "usage": USAGE}, frozenset({"usage"})),
    EventKind("replay_complete", _REPLAYED, {"replayed_count": COUNT, "last_entry_id": TEXT}),
    EventKind("message_not_streaming", _NOT_STREAMING, {"message_id": UUID}),
    EventKind("thread_title", "The title of the thread has changed.", {"thread_id": UUID, "title": TEXT}),
)


def document() -> Schema:
    """Return all events as one JSON Schema document."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Events of GET /v1/threads/{thread_id}/stream",
        "$defs": {kind.name: kind.schema() for kind in KINDS},
    }
