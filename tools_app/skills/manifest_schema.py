"""JSON Schema of a manifest. Pure."""

from typing import Any

_TEXTS = {"type": "object", "maxProperties": 50, "additionalProperties": {"type": "string", "maxLength": 10_000}}

MANIFEST: dict[str, Any] = {
    "type": "object",
    "required": ["skillId", "name", "version", "publisherId"],
    "additionalProperties": False,
    "properties": {
        "skillId": {
            "type": "string",
            "maxLength": 57,  # the tool's name, with its prefix, has at most 64
            "pattern": "^[a-z0-9]+(?:-[a-z0-9]+)*$",
        },
        "name": {"type": "string", "minLength": 1, "maxLength": 200},
        "version": {"type": "string", "maxLength": 60},
        "publisherId": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,119}$"},
        "description": {"type": ["string", "null"], "maxLength": 4_000},
        "category": {"type": ["string", "null"], "maxLength": 60},
        "inputSchema": {"type": ["object", "null"]},
        "outputSchema": {"type": ["object", "null"]},
        "requiredPermissions": {"type": ["array", "null"], "maxItems": 50},
        "declaredToolAccess": {
            "type": ["array", "null"],
            "maxItems": 50,
            "items": {"type": "string", "maxLength": 120},
        },
        "signatureHash": {"type": ["string", "null"], "maxLength": 200},
        "isVerified": {"type": ["boolean", "null"]},
        "effect": {"enum": ["read", "keyed", "once", None]},
        "risk": {"enum": ["low", "medium", "high", None]},
        "timeoutSeconds": {"type": ["integer", "null"], "minimum": 1, "maximum": 1_800},
        "http": {
            "type": ["object", "null"],
            "required": ["method", "url"],
            "additionalProperties": False,
            "properties": {
                "method": {"enum": ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]},
                "url": {"type": "string", "maxLength": 2_000},
                "query": _TEXTS,
                "headers": _TEXTS,
                "json": True,
                "form": _TEXTS,
            },
        },
        "mcp": {
            "type": ["object", "null"],
            "required": ["server", "tool"],
            "additionalProperties": False,
            "properties": {
                "server": {"type": "string", "minLength": 1, "maxLength": 120},
                "tool": {"type": "string", "minLength": 1, "maxLength": 128},
            },
        },
        "instruction": {
            "type": ["object", "null"],
            "required": ["body"],
            "additionalProperties": False,
            "properties": {
                "body": {"type": "string", "minLength": 1, "maxLength": 200_000},
                "files": {
                    "type": ["object", "null"],
                    "maxProperties": 200,
                    "additionalProperties": {"type": "string", "maxLength": 200_000},
                },
            },
        },
    },
}
