"""This surface in the OpenAPI document: its objects, with the fields of the protocol that it supports."""

from sessions_app.surfaces.base.openapi.operations import Description
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
from sessions_app.surfaces.openai.files import PURPOSES
from sessions_app.surfaces.openai.requests import LABELS

_ABOUT = "Chat Completions and Responses: agents are the models. See docs/openai.md."
_MAYBE_TEXT = nullable(TEXT)
_ANSWER = {"role": just("assistant"), "content": _MAYBE_TEXT, "refusal": NULL, "annotations": list_of(OBJECT)}
_MESSAGE = record({**_ANSWER, "tool_calls": list_of(OBJECT)}, optional=["tool_calls"])
_REASON = one_of(["stop", "length", "tool_calls"])
_CHOICE = {"index": INTEGER, "logprobs": NULL, "finish_reason": _REASON, "message": _MESSAGE}
COMPONENTS: dict[str, Schema] = {
    "OpenAIError": record(
        {"error": record({"message": TEXT, "type": TEXT, "param": _MAYBE_TEXT, "code": _MAYBE_TEXT})}
    ),
    "Model": record({"id": TEXT, "object": just("model"), "created": SECONDS, "owned_by": TEXT}),
    "ModelList": record({"object": just("list"), "data": list_of(ref("Model"))}),
    "File": record(
        {
            "id": TEXT,
            "object": just("file"),
            "bytes": COUNT,
            **dict.fromkeys(("created_at", "expires_at"), SECONDS),
            "filename": TEXT,
            "purpose": one_of(PURPOSES),
            "status": just("processed"),
        }
    ),
    "FileList": record(
        {
            "object": just("list"),
            "data": list_of(ref("File")),
            **dict.fromkeys(("first_id", "last_id"), _MAYBE_TEXT),
            "has_more": BOOLEAN,
        }
    ),
    "FileDeleted": record({"id": TEXT, "object": just("file"), "deleted": just(True)}),
    "Embeddings": record(
        {
            "object": just("list"),
            "data": list_of(
                record(
                    {
                        "object": just("embedding"),
                        "index": COUNT,
                        "embedding": {"anyOf": [list_of(NUMBER), about(TEXT, "Base64 of 32-bit floats.")]},
                    }
                )
            ),
            "model": TEXT,
            "usage": record(dict.fromkeys(("prompt_tokens", "total_tokens"), COUNT)),
        }
    ),
    "Transcription": record(
        {
            "text": TEXT,
            "usage": OBJECT,
            "task": just("transcribe"),
            "language": TEXT,
            "duration": {"type": ["number", "string"]},
            **dict.fromkeys(("segments", "words"), list_of(OBJECT)),
        },
        optional=["usage", "task", "language", "duration", "segments", "words"],
    ),
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
            **dict.fromkeys(("id", "model", "service_tier", "truncation"), TEXT),
            "tool_choice": {"anyOf": [TEXT, OBJECT]},
            **dict.fromkeys(("instructions", "previous_response_id", *LABELS), _MAYBE_TEXT),
            **dict.fromkeys(("background", "parallel_tool_calls", "store"), BOOLEAN),
            **dict.fromkeys(("output", "tools"), list_of(OBJECT)),
            **dict.fromkeys(("reasoning", "text"), OBJECT),
            **dict.fromkeys(("frequency_penalty", "presence_penalty", "temperature", "top_p"), NUMBER),
            "top_logprobs": INTEGER,
            "completed_at": nullable(SECONDS),
            "max_tool_calls": NULL,
            "conversation": nullable(record({"id": TEXT})),
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
    "Conversation": record(
        {"id": TEXT, "object": just("conversation"), "created_at": SECONDS, "metadata": map_of(TEXT)}
    ),
    "ConversationDeleted": record({"id": TEXT, "object": just("conversation.deleted"), "deleted": just(True)}),
    "ConversationItem": record({"id": TEXT, "type": TEXT}, open_ended=True),
    "ConversationItemList": record(
        {
            "object": just("list"),
            "data": list_of(ref("ConversationItem")),
            **dict.fromkeys(("first_id", "last_id"), _MAYBE_TEXT),
            "has_more": BOOLEAN,
        }
    ),
    "ResponseDeleted": record({"id": TEXT, "object": just("response"), "deleted": just(True)}),
    "CompactedResponse": record(
        {
            "id": TEXT,
            "object": just("response.compaction"),
            "created_at": SECONDS,
            "output": list_of(OBJECT),
            "usage": OBJECT,
        }
    ),
    "InputTokens": record({"object": just("response.input_tokens"), "input_tokens": COUNT}),
    "ResponseInput": record(
        {
            "object": just("list"),
            "data": list_of(OBJECT),
            **dict.fromkeys(("first_id", "last_id"), _MAYBE_TEXT),
            "has_more": BOOLEAN,
        }
    ),
}
DESCRIPTION = Description("OpenAI", _ABOUT, "OpenAIError", COMPONENTS)
