"""The document as chapters for its page: one a surface, each operation with its tables. Pure but for the document."""

import json
from typing import Any

from komand.openapi import document

_SHORT = "#/components/schemas/"
_RESPONSES = "#/components/responses/"


def read_chapters() -> dict[str, Any]:
    """What the page shows: `title`, `about`, `chapters` and `schemas`."""
    found = document.build()
    shared = found["components"]["responses"]
    operations: dict[str, list[dict[str, Any]]] = {tag["name"]: [] for tag in found["tags"]}
    for path, item in found["paths"].items():
        parameters = item.get("parameters", [])
        for method, said in item.items():
            if method != "parameters":
                operations[said["tags"][0]].append(_operation(path, method, said, parameters, shared))
    chapters = [
        {"name": tag["name"], "about": tag["description"], "operations": operations[tag["name"]]}
        for tag in found["tags"]
    ]
    schemas = [{"name": name, "text": _json(schema)} for name, schema in sorted(found["components"]["schemas"].items())]
    return {
        "title": found["info"]["title"],
        "about": found["info"]["description"].split("\n\n"),
        "chapters": chapters,
        "schemas": schemas,
    }


def _operation(
    path: str, method: str, said: dict[str, Any], parameters: list[dict[str, Any]], shared: dict[str, Any]
) -> dict[str, Any]:
    """parameters: of the path; shared: the responses that operations refer to."""
    own = [one for one in said["parameters"] if "$ref" not in one]
    return {
        "id": said["operationId"],
        "path": path,
        "method": method.upper(),
        "summary": said["summary"],
        "description": said.get("description", ""),
        "streams": said.get("x-komand-streams", False),
        "access": _access(said["security"]),
        "parameters": [_parameter(one) for one in [*parameters, *own]],
        "body": _content(said.get("requestBody", {})),
        "answers": [_answer(status, answer, shared) for status, answer in said["responses"].items()],
    }


def _access(security: list[dict[str, Any]]) -> str:
    return " or ".join(name for one in security for name in one) or "nobody has to log in"


def _parameter(one: dict[str, Any]) -> dict[str, Any]:
    kind = ", ".join(f"{word}: {json.dumps(value)}" for word, value in one["schema"].items())
    words = one.get("description", "")
    return {"name": one["name"], "where": one["in"], "kind": kind, "required": one["required"], "words": words}


def _answer(status: str, answer: dict[str, Any], shared: dict[str, Any]) -> dict[str, Any]:
    answer = shared[answer["$ref"].removeprefix(_RESPONSES)] if "$ref" in answer else answer
    return {"status": status, "words": answer["description"], "content": _content(answer)}


def _content(holder: dict[str, Any]) -> dict[str, str] | None:
    for media_type, content in holder.get("content", {}).items():
        schema = content.get("schema")
        if schema is None or "$ref" in schema:
            name = schema["$ref"].removeprefix(_SHORT) if schema else ""
            return {"media_type": media_type, "name": name, "text": ""}
        return {"media_type": media_type, "name": "", "text": _json(schema)}
    return None


def _json(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False).replace(_SHORT, "")
