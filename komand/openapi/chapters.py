"""The document as template data of its page: a chapter for each surface, with its operations."""

import json
from typing import Any

from komand.openapi import document

_SHORT = "#/components/schemas/"
_RESPONSES = "#/components/responses/"


def read_chapters() -> dict[str, Any]:
    """Return the template data: `title`, `about`, `chapters` and `schemas`."""
    found = document.build()
    operations = _operations_by_tag(found)
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


def _operations_by_tag(found: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    shared = found["components"]["responses"]
    operations: dict[str, list[dict[str, Any]]] = {tag["name"]: [] for tag in found["tags"]}
    for path, item in found["paths"].items():
        parameters = item.get("parameters", [])
        for method, operation in item.items():
            if method != "parameters":
                operations[operation["tags"][0]].append(_operation(path, method, operation, parameters, shared))
    return operations


def _operation(
    path: str, method: str, operation: dict[str, Any], parameters: list[dict[str, Any]], shared: dict[str, Any]
) -> dict[str, Any]:
    """parameters: parameters of the path.
    shared: the responses that operations refer to.
    """
    own = [one for one in operation["parameters"] if "$ref" not in one]
    return {
        "id": operation["operationId"],
        "path": path,
        "method": method.upper(),
        "summary": operation["summary"],
        "description": operation.get("description", ""),
        "streams": operation.get("x-komand-streams", False),
        "access": " or ".join(name for one in operation["security"] for name in one) or "none",
        "parameters": [_parameter(one) for one in [*parameters, *own]],
        "body": _content(operation.get("requestBody", {})),
        "answers": [_answer(status, answer, shared) for status, answer in operation["responses"].items()],
    }


def _parameter(one: dict[str, Any]) -> dict[str, Any]:
    kind = ", ".join(f"{keyword}: {json.dumps(value)}" for keyword, value in one["schema"].items())
    about = one.get("description", "")
    return {"name": one["name"], "where": one["in"], "kind": kind, "required": one["required"], "about": about}


def _answer(status: str, answer: dict[str, Any], shared: dict[str, Any]) -> dict[str, Any]:
    answer = shared[answer["$ref"].removeprefix(_RESPONSES)] if "$ref" in answer else answer
    return {"status": status, "about": answer["description"], "content": _content(answer)}


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
