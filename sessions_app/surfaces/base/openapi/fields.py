"""JSON Schemas of serializers: of request bodies with the limits that are checked, of answers without them."""

from collections.abc import Iterator
from typing import Any

from rest_framework import serializers

from sessions_app.surfaces.base.openapi.schemas import NULL, Schema, list_of, nullable, record, ref
from sessions_app.surfaces.base.serializers import ObjectSerializer, SnakeCaseObject

_PLAIN: tuple[tuple[type[serializers.Field[Any, Any, Any, Any]], dict[str, Any]], ...] = (
    (serializers.SlugField, {"type": "string", "pattern": "^[-a-zA-Z0-9_]+$"}),
    (serializers.CharField, {"type": "string"}),
    (serializers.UUIDField, {"type": "string", "format": "uuid"}),
    (serializers.DateTimeField, {"type": "string", "format": "date-time"}),
    (serializers.DateField, {"type": "string", "format": "date"}),
    (serializers.BooleanField, {"type": "boolean"}),
    (serializers.IntegerField, {"type": "integer"}),
    (serializers.FloatField, {"type": "number"}),
    (serializers.JSONField, {}),
)
_LIMITS = {"min_value": "minimum", "max_value": "maximum", "max_length": "maxLength", "min_length": "minLength"}


class UndescribedFieldError(TypeError):
    """A field class without a known schema: give it a `json_schema`, or add it to `_PLAIN`."""


def body_schema(serializer_class: type[serializers.Serializer[Any]], *, partial: bool = False) -> Schema:
    """Return the schema of the object that the serializer accepts. partial: no field is required."""
    fields = fields_of(serializer_class)
    schema: dict[str, Any] = {"type": "object", "properties": {name: schema_of(one) for name, one in fields.items()}}
    required = [name for name, one in fields.items() if one.required]
    return schema if partial or not required else {**schema, "required": required}


def fields_of(serializer_class: type[serializers.Serializer[Any]]) -> dict[str, Any]:
    """Return the fields that the serializer accepts, by their names on the wire."""
    return {name: one for name, one in serializer_class().get_fields().items() if not one.read_only}


def object_schema(serializer_class: type[serializers.Serializer[Any]]) -> Schema:
    """Return the schema of the object that the serializer returns: exactly its fields."""
    fields = serializer_class().get_fields()
    optional = getattr(serializer_class, "optional", ())
    return record(
        {name: schema_of(one, is_input=False) for name, one in fields.items()},
        optional=[key for name, key in zip(serializer_class._declared_fields, fields, strict=True) if name in optional],
    )


def answer_schema(given: Any) -> Any:
    """Return the schema of an answer.

    given: a serializer class, whose component is referred to; a list with the class of its items; a tuple of
    alternatives; else a schema, or None, which stay as they are.
    """
    if isinstance(given, list):
        return list_of(answer_schema(given[0]))
    if isinstance(given, tuple):
        return {"anyOf": [answer_schema(one) for one in given]}
    return ref(component_name(given)) if isinstance(given, type) else given


def component_name(serializer_class: type[serializers.Serializer[Any]]) -> str:
    return serializer_class.__name__.removesuffix("Out")


def components_of(*modules: Any) -> dict[str, Schema]:
    """Return the schemas of all objects that the modules define or import, by their component names."""
    found = {one for module in modules for one in vars(module).values() if _is_component(one)}
    return {component_name(one): object_schema(one) for one in sorted(found, key=component_name)}


def schema_of(one: Any, *, is_input: bool = True) -> Schema:
    schema = dict(_shape_of(one, is_input=is_input))
    if one.help_text:
        schema["description"] = str(one.help_text)
    if is_input and isinstance(one.default, str | int | float | bool):
        schema["default"] = one.default
    return nullable(schema) if one.allow_null and (is_input or not hasattr(one, "output_schema")) else schema


def without_null(schema: Schema) -> Schema:
    """Return the schema of a query parameter: a URL has no null, the parameter is left out instead."""
    return schema["anyOf"][0] if NULL in schema.get("anyOf", ()) else schema


def _shape_of(one: Any, *, is_input: bool) -> Schema:
    if given := _given_schema(one, is_input=is_input):
        return dict(given)
    if isinstance(one, serializers.Serializer):
        if is_input:
            return body_schema(type(one))
        return ref(component_name(type(one))) if _is_component(type(one)) else object_schema(type(one))
    if isinstance(one, serializers.ListField):
        limit = {"maxItems": one.max_length} if is_input and one.max_length is not None else {}
        return {"type": "array", "items": _item(one.child, is_input=is_input), **limit}
    if isinstance(one, serializers.DictField):
        item = _item(one.child, is_input=is_input)
        return {"type": "object", "additionalProperties": item} if item else {"type": "object"}
    if isinstance(one, serializers.ChoiceField):
        return {"enum": [str(choice) for choice in one.choices]}
    return _plain(one, is_input=is_input)


def _given_schema(one: Any, *, is_input: bool) -> Schema | None:
    given: Schema | None = getattr(one, "json_schema", None)
    return given if is_input else getattr(one, "output_schema", given)


def _is_component(one: Any) -> bool:
    return isinstance(one, type) and issubclass(one, SnakeCaseObject) and one not in (SnakeCaseObject, ObjectSerializer)


def _item(child: Any, *, is_input: bool) -> Schema:
    """Return the schema of the items of a list or map; an empty one where they are not validated."""
    return {} if type(child).__name__ == "_UnvalidatedField" else schema_of(child, is_input=is_input)


def _plain(one: Any, *, is_input: bool) -> Schema:
    shape = next((shape for kind, shape in _PLAIN if isinstance(one, kind)), None)
    if shape is None:
        raise UndescribedFieldError(type(one).__name__)
    if not is_input:
        return {name: value for name, value in shape.items() if name != "pattern"}
    return shape | dict(_limits(one))


def _limits(one: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(one, serializers.CharField) and not one.allow_blank:
        yield "minLength", 1
    for name, keyword in _LIMITS.items():
        if (limit := getattr(one, name, None)) is not None:
            yield keyword, limit
