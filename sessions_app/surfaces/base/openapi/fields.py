"""Serializers as JSON Schemas: what a request may hold, with the limits it is checked against."""

from typing import Any

from rest_framework import serializers

from sessions_app.surfaces.base.openapi.schemas import Schema

_PLAIN: tuple[tuple[type[serializers.Field[Any, Any, Any, Any]], dict[str, Any]], ...] = (
    (serializers.SlugField, {"type": "string", "pattern": "^[-a-zA-Z0-9_]+$"}),
    (serializers.CharField, {"type": "string"}),
    (serializers.UUIDField, {"type": "string", "format": "uuid"}),
    (serializers.DateTimeField, {"type": "string", "format": "date-time"}),
    (serializers.BooleanField, {"type": "boolean"}),
    (serializers.IntegerField, {"type": "integer"}),
    (serializers.FloatField, {"type": "number"}),
    (serializers.JSONField, {}),
)
_LIMITS = {"min_value": "minimum", "max_value": "maximum", "max_length": "maxLength", "min_length": "minLength"}


class UndescribedFieldError(TypeError):
    """A kind of field that nobody has said a schema for: give its class a `json_schema`, or name it here."""


def body_schema(serializer_class: type[serializers.Serializer[Any]], *, partial: bool = False) -> Schema:
    """The object that the serializer takes. partial: nothing in it is required."""
    fields = fields_of(serializer_class)
    schema: dict[str, Any] = {"type": "object", "properties": {name: schema_of(one) for name, one in fields.items()}}
    required = [name for name, one in fields.items() if one.required]
    return schema if partial or not required else {**schema, "required": required}


def fields_of(serializer_class: type[serializers.Serializer[Any]]) -> dict[str, Any]:
    return {name: one for name, one in serializer_class().get_fields().items() if not one.read_only}


def schema_of(one: Any) -> Schema:
    """The JSON Schema of a serializer's field."""
    schema = dict(_shape_of(one))
    if one.help_text:
        schema["description"] = str(one.help_text)
    if isinstance(one.default, str | int | float | bool):
        schema["default"] = one.default
    if one.allow_null:
        return {"anyOf": [schema, {"type": "null"}]}
    return schema


def _shape_of(one: Any) -> dict[str, Any]:
    if given := getattr(one, "json_schema", None):
        return dict(given)
    if isinstance(one, serializers.Serializer):
        return dict(body_schema(type(one)))
    if isinstance(one, serializers.ListField):
        shape: dict[str, Any] = {"type": "array", "items": _item(one.child)}
        return shape if one.max_length is None else {**shape, "maxItems": one.max_length}
    if isinstance(one, serializers.DictField):
        return {"type": "object", "additionalProperties": _item(one.child)}
    if isinstance(one, serializers.ChoiceField):
        return {"enum": list(one.choices)}
    return _plain(one)


def _item(child: Any) -> Schema:
    """Lists and maps without a kind of item take any."""
    return {} if type(child).__name__ == "_UnvalidatedField" else schema_of(child)


def _plain(one: Any) -> dict[str, Any]:
    shape = next((shape for kind, shape in _PLAIN if isinstance(one, kind)), None)
    if shape is None:
        raise UndescribedFieldError(type(one).__name__)
    limits = {word: getattr(one, name, None) for name, word in _LIMITS.items()}
    if isinstance(one, serializers.CharField) and not one.allow_blank:
        limits["minLength"] = limits["minLength"] or 1
    return {**shape, **{word: limit for word, limit in limits.items() if limit is not None}}
