"""Serializers of the JSON objects that a surface accepts and returns. The OpenAPI document reads the same classes."""

import json
from collections.abc import Callable
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, Self

from rest_framework import serializers
from rest_framework.validators import ProhibitSurrogateCharactersValidator

from sessions_app.surfaces.base.timestamps import iso, time_span
from tools_app.schema import without_nul


def check_storable(value: Any) -> None:
    """Raise ValidationError for a JSON value that PostgreSQL cannot store."""
    text = json.dumps(value)
    if without_nul(text) != text:
        raise serializers.ValidationError("A string contains a NUL character, which cannot be stored. Remove it.")


class CamelCaseSerializer(serializers.Serializer[Any]):
    """Fields that are declared in snake_case and named in camelCase on the wire. A trailing underscore is dropped."""

    @classmethod
    def read(cls, data: Any) -> dict[str, Any]:
        """Return the validated values of a JSON value of `parse_json`. Raises ValidationError.

        The fields are made once, which takes longer than a validation.
        """
        validated: dict[str, Any]
        try:
            validated = cls._reader().run_validation(data)
        except serializers.ValidationError:
            serializer = cls(data=data)  # which describes the error
            serializer.is_valid(raise_exception=True)
            validated = serializer.validated_data
        return validated

    @classmethod
    @cache
    def _reader(cls) -> Self:
        reader = cls()
        # `parse_json` has refused surrogates, which DRF looks for in each character.
        for field in reader.fields.values():
            checks = field.validators
            field.validators = [each for each in checks if not isinstance(each, ProhibitSurrogateCharactersValidator)]
        return reader

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        for name, field in fields.items():
            if field.source is None and _camel_case(name) != name:
                field.source = name
        return {_camel_case(name): field for name, field in fields.items()}


class _Column(NamedTuple):
    """A field of a returned object.

    name: as it is declared.
    key: as it is on the wire.
    """

    name: str
    key: str
    read: Callable[[Any], Any]
    represent: Callable[[Any], Any]


class SnakeCaseObject(serializers.Serializer[Any]):
    """An object that is returned. Its schema is a component, by the name of the class without `Out`.

    `of` replaces DRF's `to_representation`, which takes twice as long.
    optional: the fields that are absent unless they are given.
    """

    optional: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def of(cls, subject: Any, **given: Any) -> dict[str, Any]:
        """Return the JSON object of a model row or a view.

        given: values, by the declared names of their fields, that are not read from the subject.
        """
        shown = {}
        for name, key, read, represent in cls._columns():
            if name in given:
                value = given[name]
            elif name in cls.optional:
                continue
            else:
                value = read(subject)
            shown[key] = None if value is None else represent(value)
        return shown

    def to_representation(self, instance: Any) -> dict[str, Any]:
        return self.of(instance)

    @classmethod
    @cache
    def _columns(cls) -> list[_Column]:
        found = zip(cls._declared_fields, cls().fields.items(), strict=True)
        return [_Column(name, key, _reader(field.source), field.to_representation) for name, (key, field) in found]


class ObjectSerializer(CamelCaseSerializer, SnakeCaseObject):
    """An object that is returned, with names in camelCase."""


class Count(serializers.IntegerField):
    json_schema: ClassVar = {"type": "integer", "minimum": 0}


class NullableText(serializers.CharField):
    """A text that is null when it is empty."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_null=True, **options)

    def to_representation(self, value: Any) -> Any:
        return str(value) or None


class NullableChoice(serializers.ChoiceField):
    """A choice that is null when it is empty."""

    def __init__(self, choices: Any, **options: Any) -> None:
        super().__init__(choices, allow_null=True, **options)

    def to_representation(self, value: Any) -> Any:
        return super().to_representation(value) or None


class Timestamp(serializers.DateTimeField):
    json_schema: ClassVar = {"type": "string", "format": "date-time", "description": "UTC, with milliseconds and Z."}

    def to_representation(self, value: datetime | None) -> Any:
        return iso(value)


class TimeSpan(serializers.FloatField):
    """A number of seconds, in the text form of a .NET TimeSpan."""

    json_schema: ClassVar = {"type": "string", "description": "[days.]hh:mm:ss[.fff]"}

    def to_representation(self, value: Any) -> Any:
        return time_span(value)


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _reader(source: Any) -> Callable[[Any], Any]:
    """Return a function that reads the source from a subject: dotted attributes, or `*` for the subject itself."""
    return (lambda subject: subject) if source == "*" else attrgetter(source)
