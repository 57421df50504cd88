"""JSON Schema of a manifest. Pure."""

from typing import Any


def _text(max_length: int, **rules: Any) -> dict[str, Any]:
    return {"type": "string", "maxLength": max_length, **rules}


def _nullable(kind: str, **rules: Any) -> dict[str, Any]:
    return {"type": [kind, "null"], **rules}


def _object(*required: str, **properties: Any) -> dict[str, Any]:
    return _nullable("object", required=[*required], additionalProperties=False, properties=properties)


_TEXTS = {"type": "object", "maxProperties": 50, "additionalProperties": _text(10_000)}
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]

MANIFEST: dict[str, Any] = {
    "type": "object",
    "required": ["skillId", "name", "version", "publisherId"],
    "additionalProperties": False,
    "properties": {
        "skillId": _text(57, pattern="^[a-z0-9]+(?:-[a-z0-9]+)*$"),  # the tool's name, with its prefix, has at most 64
        "name": _text(200, minLength=1),
        "version": _text(60),
        "publisherId": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,119}$"},
        "description": _nullable("string", maxLength=4_000),
        "category": _nullable("string", maxLength=60),
        "inputSchema": _nullable("object"),
        "outputSchema": _nullable("object"),
        "requiredPermissions": _nullable("array", maxItems=50),
        "declaredToolAccess": _nullable("array", maxItems=50, items=_text(120)),
        "signatureHash": _nullable("string", maxLength=200),
        "isVerified": _nullable("boolean"),
        "effect": {"enum": ["read", "keyed", "once", None]},
        "risk": {"enum": ["low", "medium", "high", None]},
        "timeoutSeconds": _nullable("integer", minimum=1, maximum=1_800),
        "http": _object(
            "method",
            "url",
            method={"enum": _METHODS},
            url=_text(2_000),
            query=_TEXTS,
            headers=_TEXTS,
            json=True,
            form=_TEXTS,
        ),
        "mcp": _object("server", "tool", server=_text(120, minLength=1), tool=_text(128, minLength=1)),
        "instruction": _object(
            "body",
            body=_text(200_000, minLength=1),
            files=_nullable("object", maxProperties=200, additionalProperties=_text(200_000)),
        ),
    },
}
