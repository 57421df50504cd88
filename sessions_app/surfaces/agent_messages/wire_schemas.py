"""JSON Schemas of messages, for tests and the OpenAPI document. Data only.

The wire form has a closed set of keys; `details` is open, so that new keys do not break older clients.
"""

from typing import Any

_TEXT = {"type": "string"}
_NUMBER = {"type": "number"}
_USAGE = ("prompt", "result", "total", "prompt_cached", "prompt_cache_write", "prompt_new")

DETAILS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "ack": _TEXT,
        "event_class": _TEXT,
        "tool": _TEXT,
        "tools": {"type": "array", "items": _TEXT},
        "tool_event": {"enum": ["started", "progress", "completed", "failed"]},
        "tool_status": {"enum": ["running", "completed", "error", "warning"]},
        "tool_run_id": _TEXT,
        "tool_use_id": _TEXT,
        "tool_iteration": _NUMBER,
        "message_to_human": _TEXT,
        "duration_ms": _NUMBER,
        "streamed": {"type": "boolean"},
        "display_role": _TEXT,
        "activity_id": _TEXT,
        "activity_group_id": _TEXT,
        "batch_id": _TEXT,
        "token_usage": {"type": "object", "properties": dict.fromkeys(_USAGE, _NUMBER), "additionalProperties": False},
        "outputFiles": {"type": "array", "items": _TEXT},
        "files": {"type": "array", "items": {"type": ["string", "object"]}},
        "plan": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "id": _NUMBER,
                    "goal": _TEXT,
                    "instructions": {"type": "array", "items": _TEXT},
                    "comment": _TEXT,
                    "status": {"enum": ["pending", "in_progress", "completed", "skipped"]},
                },
                "required": ["id", "goal"],
                "additionalProperties": False,
            },
        },
        "streaming_id": _TEXT,
        "streaming_id_scope": {"enum": ["workflow_run", "workstream"]},
        "request_id": _TEXT,
        "ux": {
            "type": "object",
            "properties": {
                "options": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"id": _TEXT, "label": _TEXT, "description": _TEXT},
                        "required": ["id", "label"],
                        "additionalProperties": False,
                    },
                },
                "variant": {"enum": ["default", "warning", "info", "success"]},
                "multiSelect": {"type": "boolean"},
                "free_response": {"type": "object"},
                "mcp_connect": {"type": "object"},
            },
            "additionalProperties": False,
        },
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
