"""JSON Schemas of request bodies, with the fields of the protocol that this surface supports."""

from sessions_app.surfaces.base.function_tools import MOST_TOOLS
from sessions_app.surfaces.base.openapi.schemas import (
    BINARY,
    BOOLEAN,
    NULL,
    OBJECT,
    TEXT,
    Schema,
    about,
    just,
    list_of,
    nullable,
    one_of,
    record,
)
from sessions_app.surfaces.openai import transcriptions
from sessions_app.surfaces.openai.chat_messages import MOST_MESSAGES
from sessions_app.surfaces.openai.embeddings import FORMATS, MOST_DIMENSIONS, MOST_INPUTS, MOST_TOKENS
from sessions_app.surfaces.openai.requests import LABELS, LONGEST_LABEL, LONGEST_TEXT

MOST_ITEMS = 20  # that are added to a conversation at a time

_MAYBE_TEXT = nullable(TEXT)
_CONTENT: Schema = {"anyOf": [TEXT, list_of(record({"type": TEXT}, open_ended=True))]}
_TEMPERATURE: Schema = {"type": ["number", "null"], "minimum": 0, "maximum": 2}
_MOST_TOKENS: Schema = {"type": ["integer", "null"], "minimum": 1}
_METADATA: Schema = {
    "type": ["object", "null"],
    "maxProperties": 16,
    "additionalProperties": {"type": "string", "maxLength": 512},
    "description": "`session_id`: the session to continue.",
}


def _body(fields: dict[str, Schema], required: list[str]) -> Schema:
    """Return the schema of a body or a part of it. Further fields are ignored."""
    return {"type": "object", "properties": fields, "required": required}


_FORMAT = _body({"type": one_of(["text", "json_object", "json_schema"]), "json_schema": OBJECT}, ["type"])
_MESSAGE = _body(
    {
        "role": one_of(["system", "developer", "user", "assistant", "tool"]),
        "content": nullable(_CONTENT),
        "tool_calls": nullable(list_of(OBJECT)),
        "tool_call_id": TEXT,
    },
    ["role"],
)
_TOOLS: dict[str, Schema] = {
    "tools": {"type": ["array", "null"], "items": OBJECT, "maxItems": MOST_TOOLS, "description": "Functions."},
    "tool_choice": {"anyOf": [one_of(["none", "auto", "required"]), OBJECT]},
}
COMPLETION_BODY = _body(
    {
        "model": about(TEXT, "An agent's id."),
        "messages": {"type": "array", "items": _MESSAGE, "minItems": 1, "maxItems": MOST_MESSAGES},
        "stream": BOOLEAN,
        "stream_options": nullable(_body({"include_usage": BOOLEAN}, [])),
        "response_format": _FORMAT,
        "temperature": _TEMPERATURE,
        "max_completion_tokens": _MOST_TOKENS,
        "max_tokens": _MOST_TOKENS,
        "n": nullable(just(1)),
        **_TOOLS,
        "metadata": _METADATA,
    },
    ["model", "messages"],
)
_TOKENS: Schema = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "maxItems": MOST_TOKENS}
_EMBEDDED: Schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT}
EMBEDDING_BODY = _body(
    {
        "model": about(TEXT, "An agent's id, or the embedding model of an agent's provider."),
        "input": {
            "anyOf": [
                _EMBEDDED,
                {"type": "array", "items": _EMBEDDED, "minItems": 1, "maxItems": MOST_INPUTS},
                _TOKENS,
                {"type": "array", "items": _TOKENS, "minItems": 1, "maxItems": MOST_INPUTS},
            ]
        },
        "dimensions": {"type": ["integer", "null"], "minimum": 1, "maximum": MOST_DIMENSIONS},
        "encoding_format": one_of([*FORMATS, None]),
    },
    ["model", "input"],
)
TRANSCRIPTION_BODY = _body(
    {
        "file": BINARY,
        "model": about(TEXT, "An agent's id, or the transcription model of an agent's provider."),
        "language": TEXT,
        "prompt": TEXT,
        "response_format": one_of(transcriptions.FORMATS),
        "temperature": TEXT,
        "timestamp_granularities[]": list_of(one_of(transcriptions.GRANULARITIES)),
    },
    ["file", "model"],
)
_INPUT: Schema = {"anyOf": [TEXT, {"type": "array", "items": OBJECT, "minItems": 1, "maxItems": MOST_MESSAGES}]}
_INSTRUCTIONS: Schema = {"type": ["string", "null"], "maxLength": LONGEST_TEXT}
_CONVERSATION: Schema = {"anyOf": [TEXT, _body({"id": TEXT}, ["id"]), NULL]}
RESPONSE_BODY = _body(
    {
        "model": about(TEXT, "An agent's id."),
        "input": _INPUT,
        "instructions": _INSTRUCTIONS,
        "stream": BOOLEAN,
        "background": BOOLEAN,
        "store": about(nullable(BOOLEAN), "False: the response cannot be read or continued by its id."),
        "previous_response_id": _MAYBE_TEXT,
        "conversation": _CONVERSATION,
        "text": _body({"format": OBJECT}, []),
        **_TOOLS,
        "temperature": _TEMPERATURE,
        "max_output_tokens": _MOST_TOKENS,
        "metadata": _METADATA,
        **dict.fromkeys(LABELS, nullable({"type": "string", "maxLength": LONGEST_LABEL})),
    },
    ["model", "input"],
)
COMPACT_BODY = _body(
    {
        "model": about(TEXT, "An agent's id."),
        "input": nullable(_INPUT),
        "instructions": _INSTRUCTIONS,
        "previous_response_id": _MAYBE_TEXT,
    },
    ["model"],
)
INPUT_TOKENS_BODY = _body(
    {
        "model": about(_MAYBE_TEXT, "An agent's id. By default that of the conversation before."),
        "input": nullable(_INPUT),
        "instructions": _INSTRUCTIONS,
        "previous_response_id": _MAYBE_TEXT,
        "conversation": _CONVERSATION,
        **_TOOLS,
        "metadata": _METADATA,
    },
    [],
)
_LABELS_OF_CONVERSATION: Schema = {**_METADATA, "description": "Labels of the conversation."}
_ITEMS: Schema = {"type": "array", "items": OBJECT, "minItems": 1, "maxItems": MOST_ITEMS}
CONVERSATION_BODY = _body({"items": nullable({**_ITEMS, "minItems": 0}), "metadata": _LABELS_OF_CONVERSATION}, [])
CONVERSATION_UPDATE_BODY = _body({"metadata": _LABELS_OF_CONVERSATION}, ["metadata"])
ITEMS_BODY = _body({"items": _ITEMS}, ["items"])
