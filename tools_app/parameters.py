"""Builds the JSON Schemas of the parameters of built-in tools. Pure.

A description costs tokens in every model call: it is empty if the name says enough.
"""

from typing import Any


def text(description: str, **rules: Any) -> dict[str, Any]:
    """Return the schema of a text. rules: further keywords, such as `maxLength`."""
    return {"type": "string", **rules, **_described(description)}


def integer(description: str, minimum: int, maximum: int | None = None) -> dict[str, Any]:
    """Return the schema of an integer."""
    most = {} if maximum is None else {"maximum": maximum}
    return {"type": "integer", "minimum": minimum, **most, **_described(description)}


def boolean(description: str) -> dict[str, Any]:
    """Return the schema of a boolean."""
    return {"type": "boolean", **_described(description)}


def parameters(*required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with these properties and no others."""
    listed = {"required": [*required]} if required else {}
    return {"type": "object", "properties": properties, **listed, "additionalProperties": False}


def _described(description: str) -> dict[str, str]:
    return {"description": description} if description else {}
