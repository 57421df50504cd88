"""Builds the JSON Schemas of the parameters of built-in tools. Pure."""

from typing import Any


def text(description: str, **rules: Any) -> dict[str, Any]:
    """Return the schema of a text. rules: further keywords, such as `maxLength`."""
    return {"type": "string", **rules, "description": description}


def integer(description: str, minimum: int, maximum: int | None = None) -> dict[str, Any]:
    """Return the schema of an integer."""
    most = {} if maximum is None else {"maximum": maximum}
    return {"type": "integer", "minimum": minimum, **most, "description": description}


def boolean(description: str) -> dict[str, Any]:
    """Return the schema of a boolean."""
    return {"type": "boolean", "description": description}


def parameters(*required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with these properties and no others."""
    listed = {"required": [*required]} if required else {}
    return {"type": "object", "properties": properties, **listed, "additionalProperties": False}
