"""The operations of this surface for the OpenAPI document, with the fields of the protocol that it supports."""

from typing import Any

from sessions_app.surfaces.base.openapi.operations import (
    EVENTS,
    IDEMPOTENCY_KEY,
    Answer,
    Description,
    Operation,
    Parameter,
)
from sessions_app.surfaces.base.openapi.schemas import (
    BOOLEAN,
    COUNT,
    INTEGER,
    NULL,
    NUMBER,
    OBJECT,
    SECONDS,
    TEXT,
    Schema,
    about,
    just,
    list_of,
    map_of,
    nullable,
    one_of,
    record,
    ref,
)
from sessions_app.surfaces.openai.chat_messages import MOST_MESSAGES
from sessions_app.surfaces.openai.requests import LABELS, LONGEST_LABEL, LONGEST_TEXT

_ABOUT = "Chat Completions and Responses: agents are the models. See docs/openai.md."
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
_MESSAGE = _body({"role": one_of(["system", "developer", "user", "assistant", "tool"]), "content": _CONTENT}, ["role"])
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
        "metadata": _METADATA,
    },
    ["model", "messages"],
)
RESPONSE_BODY = _body(
    {
        "model": about(TEXT, "An agent's id."),
        "input": {"anyOf": [TEXT, {"type": "array", "items": OBJECT, "minItems": 1, "maxItems": MOST_MESSAGES}]},
        "instructions": {"type": ["string", "null"], "maxLength": LONGEST_TEXT},
        "stream": BOOLEAN,
        "background": BOOLEAN,
        "previous_response_id": _MAYBE_TEXT,
        "text": _body({"format": OBJECT}, []),
        "temperature": _TEMPERATURE,
        "max_output_tokens": _MOST_TOKENS,
        "metadata": _METADATA,
        **dict.fromkeys(LABELS, nullable({"type": "string", "maxLength": LONGEST_LABEL})),
    },
    ["model", "input"],
)
_ANSWER = {"role": just("assistant"), "content": TEXT, "refusal": NULL, "annotations": list_of(OBJECT)}
_CHOICE = {"index": INTEGER, "logprobs": NULL, "finish_reason": one_of(["stop", "length"]), "message": record(_ANSWER)}
COMPONENTS: dict[str, Schema] = {
    "OpenAIError": record(
        {"error": record({"message": TEXT, "type": TEXT, "param": _MAYBE_TEXT, "code": _MAYBE_TEXT})}
    ),
    "Model": record({"id": TEXT, "object": just("model"), "created": SECONDS, "owned_by": TEXT}),
    "ModelList": record({"object": just("list"), "data": list_of(ref("Model"))}),
    "ChatCompletion": record(
        {
            "id": TEXT,
            "object": just("chat.completion"),
            "created": SECONDS,
            "model": TEXT,
            "choices": list_of(record(_CHOICE)),
            "usage": record(
                {
                    **dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), COUNT),
                    "prompt_tokens_details": record({"cached_tokens": COUNT}),
                    "completion_tokens_details": record({"reasoning_tokens": COUNT}),
                }
            ),
        }
    ),
    "Response": record(
        {
            **dict.fromkeys(("id", "model", "service_tier", "tool_choice", "truncation"), TEXT),
            **dict.fromkeys(("instructions", "previous_response_id", *LABELS), _MAYBE_TEXT),
            **dict.fromkeys(("background", "parallel_tool_calls", "store"), BOOLEAN),
            **dict.fromkeys(("output", "tools"), list_of(OBJECT)),
            **dict.fromkeys(("reasoning", "text"), OBJECT),
            **dict.fromkeys(("frequency_penalty", "presence_penalty", "temperature", "top_p"), NUMBER),
            "top_logprobs": INTEGER,
            "completed_at": nullable(SECONDS),
            "max_tool_calls": NULL,
            "object": just("response"),
            "created_at": SECONDS,
            "status": one_of(["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]),
            "error": nullable(record({"code": TEXT, "message": TEXT})),
            "incomplete_details": nullable(record({"reason": TEXT})),
            "max_output_tokens": nullable(INTEGER),
            "metadata": map_of(TEXT),
            "usage": nullable(OBJECT),
        }
    ),
    "ResponseDeleted": record({"id": TEXT, "object": just("response"), "deleted": just(True)}),
    "ResponseInput": record(
        {
            "object": just("list"),
            "data": list_of(OBJECT),
            **dict.fromkeys(("first_id", "last_id"), _MAYBE_TEXT),
            "has_more": BOOLEAN,
        }
    ),
}


def _complete_or_streamed(name: str) -> dict[int, Answer]:
    return {200: Answer(f"Complete, or as {EVENTS} with `stream`.", ref(name))}


_CREATES: dict[str, Any] = {"streams": True, "parameters": [IDEMPOTENCY_KEY], "errors": [404, 409, 422, 502, 504]}
DESCRIPTION = Description(
    "OpenAI",
    _ABOUT,
    "OpenAIError",
    COMPONENTS,
    operations={
        "GET /v1/models": Operation("List the agents, as models", ref("ModelList")),
        "GET /v1/models/{model}": Operation("Read an agent, as a model", ref("Model")),
        "POST /v1/chat/completions": Operation(
            "Create a chat completion",
            body=COMPLETION_BODY,
            answers=_complete_or_streamed("ChatCompletion"),
            **_CREATES,
            description="Closing the connection stops the run.",
        ),
        "POST /v1/responses": Operation(
            "Create a response",
            body=RESPONSE_BODY,
            answers=_complete_or_streamed("Response"),
            **_CREATES,
            description="Closing the connection stops the run, unless `background` is true.",
        ),
        "GET /v1/responses/{response_id}": Operation(
            "Read a response",
            streams=True,
            answers=_complete_or_streamed("Response"),
            parameters=[
                Parameter("stream", "Return its events.", one_of(["true", "false"])),
                Parameter("starting_after", "Return the events after this sequence number.", COUNT),
            ],
            description="Current state of the response, or its events after `starting_after`.",
        ),
        "DELETE /v1/responses/{response_id}": Operation(
            "Delete the conversation of a response",
            ref("ResponseDeleted"),
            description="Deletes all turns of the conversation.",
        ),
        "POST /v1/responses/{response_id}/cancel": Operation("Cancel a response", ref("Response")),
        "GET /v1/responses/{response_id}/input_items": Operation("List the input of a response", ref("ResponseInput")),
    },
)
