"""Short forms of JSON Schema (draft 2020-12, which OpenAPI 3.1 uses). Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

Schema = Mapping[str, Any]

ANYTHING: Schema = {}
NULL: Schema = {"type": "null"}
TEXT: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
INTEGER: Schema = {"type": "integer"}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
UUID: Schema = {"type": "string", "format": "uuid"}
TIME: Schema = {"type": "string", "format": "date-time", "description": "UTC, with milliseconds and Z."}
SECONDS: Schema = {"type": "integer", "description": "Seconds since 1970."}
OBJECT: Schema = {"type": "object"}
BINARY: Schema = {"type": "string", "format": "binary"}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def nullable(schema: Schema) -> Schema:
    return {"anyOf": [schema, NULL]}


def list_of(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def map_of(schema: Schema) -> Schema:
    return {"type": "object", "additionalProperties": schema}


def one_of(values: Iterable[str | None]) -> Schema:
    """Return an enumeration of texts. Members of a StrEnum become their values."""
    return {"enum": [None if value is None else str(value) for value in values]}


def just(value: Any) -> Schema:
    return {"const": value}


def about(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


def record(fields: Mapping[str, Schema], *, optional: Iterable[str] = (), open_ended: bool = False) -> Schema:
    """Return an object with these fields.

    optional: the fields that may be absent.
    open_ended: further fields are allowed.
    """
    maybe = set(optional)
    schema: dict[str, Any] = {
        "type": "object",
        "properties": dict(fields),
        "required": [name for name in fields if name not in maybe],
    }
    return schema if open_ended else {**schema, "additionalProperties": False}
