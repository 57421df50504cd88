"""The one declaration of the stream's events: a JSON Schema for the data of each. Pure.

`manage.py describe_thread_events` prints it for the docs; tests hold every event that is sent against it.
"""

from dataclasses import dataclass, field
from typing import Any

Schema = dict[str, Any]

UUID: Schema = {"type": "string", "format": "uuid"}
TIME: Schema = {"type": "string", "format": "date-time"}
COUNT: Schema = {"type": "integer", "minimum": 0}
STATUSES = ("running", "success", "error", "canceled")


@dataclass(frozen=True)
class EventKind:
    """says: when it comes; fields: of its data; optional: those of them that may be absent; has_place: it carries an
    entry id, so that a reader can come back behind it."""

    name: str
    says: str
    fields: Schema
    optional: frozenset[str] = field(default_factory=frozenset)
    has_place: bool = True

    def schema(self) -> Schema:
        """The JSON Schema of its data. Readers should take fields that they do not know."""
        return {
            "title": self.name,
            "description": self.says,
            "type": "object",
            "properties": self.fields,
            "required": [name for name in self.fields if name not in self.optional],
        }


_MESSAGE = {
    "id": {**UUID, "description": "the message"},
    "message_id": {**UUID, "description": "the message, again"},
    "seq": {"type": "string", "pattern": "^[0-9]+-[0-9]+$", "description": "the entry id, as in the `id:` line"},
    "ts": TIME,
}
_PART = {**_MESSAGE, "part_id": {**UUID, "description": "as in the stored message"}}
_START = {**_PART, "restarted": {"type": "boolean", "description": "forget what this part had: it begins anew"}}
_DELTA = {**_PART, "delta": {"type": "string", "minLength": 1}}
_APPROVAL: Schema = {
    "type": "object",
    "description": "while a person has to decide: POST /api/approvals/<approval_id>/decide",
    "properties": {
        "approval_id": UUID,
        "choices": {"type": "array", "items": {"type": "string"}, "description": "yours; none: somebody else decides"},
        "reason": {"type": "string"},
        "expires_at": TIME,
    },
    "required": ["approval_id", "choices", "reason", "expires_at"],
}
_STEP = {
    **_MESSAGE,
    "id": {**UUID, "description": "the step: the same in each snapshot of it"},
    "tool_call_id": {"type": "string"},
    "name": {"type": "string", "description": "the tool"},
    "kind": {"enum": ["tool_call"]},
    "args": {"type": ["object", "string", "null"]},
    "detail": {"type": ["string", "null"], "description": "its result, its error, or what it waits for"},
    "status": {"enum": list(STATUSES)},
    "start_time": TIME,
    "end_time": {"anyOf": [TIME, {"type": "null"}]},
    "duration_ms": {"type": ["integer", "null"]},
    "approval": _APPROVAL,
}
CITATION: Schema = {
    "type": "object",
    "properties": {
        "chunk_id": UUID,
        "quote": {"type": "string"},
        "start_char": COUNT,
        "length": COUNT,
        "document_name": {"type": "string"},
        "materialized_path": {"type": "string"},
    },
    "required": ["chunk_id", "quote", "start_char", "length"],
}
_USAGE: Schema = {
    "type": "object",
    "properties": {"input_tokens": COUNT, "output_tokens": COUNT},
    "required": ["input_tokens", "output_tokens"],
}

KINDS: tuple[EventKind, ...] = (
    EventKind("message_start", "The agent begins to answer.", _MESSAGE),
    EventKind("reasoning_start", "Before what the model thinks aloud.", _START, frozenset({"restarted"})),
    EventKind("reasoning_delta", "More of it.", _DELTA),
    EventKind("reasoning_end", "It is whole.", _PART),
    EventKind("text_start", "Before a text of the answer.", _START, frozenset({"restarted"})),
    EventKind("text_delta", "More of the text.", _DELTA),
    EventKind("text_end", "The text is whole.", _PART),
    EventKind(
        "step",
        "A tool call as it stands now: asked for, waiting for a person, going on, ended.",
        _STEP,
        frozenset({"approval"}),
    ),
    EventKind("citations", "What the answer cites.", {**_MESSAGE, "citations": {"type": "array", "items": CITATION}}),
    EventKind(
        "error",
        "The answer failed; text that came before stays as it is.",
        {**_MESSAGE, "error": {"type": "string"}, "code": {"type": "string"}},
    ),
    EventKind(
        "message_end",
        "The answer is over and stored. `waiting`: it asks its person something, and the next user_message answers.",
        {**_MESSAGE, "status": {"enum": ["completed", "incomplete", "canceled", "failed", "waiting"]}, "usage": _USAGE},
        frozenset({"usage"}),
    ),
    EventKind(
        "replay_complete",
        "After a resume: what was missed has come, what follows is live.",
        {"replayed_count": COUNT, "last_entry_id": {"type": "string"}},
        has_place=False,
    ),
    EventKind(
        "message_not_streaming",
        "The message of `last_message_id` is over or unknown: read it at its own address.",
        {"message_id": UUID},
        has_place=False,
    ),
    EventKind(
        "thread_title",
        "The thread has another title.",
        {"thread_id": UUID, "title": {"type": "string"}},
        has_place=False,
    ),
)


def document() -> Schema:
    """All of them as one JSON document."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Events of GET /v1/threads/{thread_id}/stream",
        "$defs": {kind.name: kind.schema() for kind in KINDS},
    }
