"""JSON Schemas of messages, for tests and the OpenAPI document. Data only.

The wire form has a closed set of keys; `details` is open, so that new keys do not break older clients.
"""

from typing import Any

_TEXT = {"type": "string"}
_NUMBER = {"type": "number"}
_USAGE = ("prompt", "result", "total", "prompt_cached", "prompt_cache_write", "prompt_new")
_TEXTS = {"type": "array", "items": _TEXT}


def _closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema


_PLAN_TASK = _closed(
    {
        "id": _NUMBER,
        "goal": _TEXT,
        "instructions": _TEXTS,
        "comment": _TEXT,
        "status": {"enum": ["pending", "in_progress", "completed", "skipped"]},
    },
    "id",
    "goal",
)
_OPTION = _closed(dict.fromkeys(("id", "label", "description"), _TEXT), "id", "label")
_UX = _closed(
    {
        "options": {"type": "array", "items": _OPTION},
        "variant": {"enum": ["default", "warning", "info", "success"]},
        "multiSelect": {"type": "boolean"},
        **dict.fromkeys(("free_response", "mcp_connect"), {"type": "object"}),
    }
)
DETAILS: dict[str, Any] = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("ack", "event_class", "message_to_human", "display_role", "request_id"), _TEXT),
        **dict.fromkeys(("tool", "tool_run_id", "tool_use_id", "activity_id", "activity_group_id", "batch_id"), _TEXT),
        **dict.fromkeys(("tool_iteration", "duration_ms"), _NUMBER),
        **dict.fromkeys(("tools", "outputFiles"), _TEXTS),
        "tool_event": {"enum": ["started", "progress", "completed", "failed"]},
        "tool_status": {"enum": ["running", "completed", "error", "warning"]},
        "streamed": {"type": "boolean"},
        "token_usage": _closed(dict.fromkeys(_USAGE, _NUMBER)),
        "files": {"type": "array", "items": {"type": ["string", "object"]}},
        "plan": {"type": "array", "items": _PLAN_TASK},
        "streaming_id": _TEXT,
        "streaming_id_scope": {"enum": ["workflow_run", "workstream"]},
        "ux": _UX,
    },
}

COMPACT_MESSAGE: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "CompactMessage",
    "type": "object",
    "properties": {
        "t": {"type": "integer", "minimum": 0, "maximum": 14},
        "m": {"type": "string", "minLength": 1},
        "w": {"type": "string", "minLength": 1, "not": {"const": "main"}},
        "d": DETAILS,
        "f": {"const": 1},
        "ts": {"type": "number", "exclusiveMinimum": 0},
        "i": {"type": "string", "minLength": 1},
    },
    "required": ["t", "ts"],
    "additionalProperties": False,
    "allOf": [
        {"if": {"not": {"properties": {"t": {"const": 12}}}}, "then": {"properties": {"f": False, "i": False}}},
        {"if": {"properties": {"t": {"const": 12}}}, "then": {"required": ["i"]}},
    ],
}

POSTED_MESSAGE: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "PostAgentRunUpdatePayload",
    "type": "object",
    "properties": {
        "timestamp": _NUMBER,
        "workflow_run_id": _TEXT,
        "type": {"enum": list(range(15))},
        "message": _TEXT,
        "details": DETAILS,
        "workstream_id": _TEXT,
    },
    "additionalProperties": False,
}
POSTED_TYPES = {name: schema.get("type", "number") for name, schema in POSTED_MESSAGE["properties"].items()}
