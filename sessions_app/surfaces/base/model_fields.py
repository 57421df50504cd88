"""Fields of request bodies that have the limits, choices and help texts of a model's columns."""

from functools import partial
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxLengthValidator
from django.db import models
from rest_framework import serializers
from rest_framework.validators import UniqueValidator

from audit_app.kernel.rules import COMMON_CODES, TextListField


class TextsField(serializers.ListField):
    """A list of texts by the rules of its column. Null stands for an empty list, unless the column takes it."""

    def __init__(self, column: TextListField, **options: Any) -> None:
        self._column = column
        if not column.null:
            self.output_schema = {"type": "array", "items": {"type": "string"}}
        options.setdefault("child", serializers.CharField(max_length=column.longest))
        super().__init__(max_length=column.most, **options)

    def run_validation(self, data: Any = serializers.empty) -> Any:
        return [] if data is None and not self._column.null else super().run_validation(data)

    def to_internal_value(self, data: Any) -> Any:
        try:
            return self._column.clean(super().to_internal_value(data), None)
        except ValidationError as error:
            raise serializers.ValidationError(error.messages) from None


def model_field(model: type[models.Model], name: str, **options: Any) -> Any:
    """Return a field with the rules of a column that have no code of their own: the service applies the others.

    options: of the field, instead of those that follow from the column.
    """
    column = model._meta.get_field(name)
    kind, given = _build(name, column)
    validators = [one for one in given.pop("validators", ()) if _is_common(one)]
    if longest := [one.limit_value for one in validators if isinstance(one, MaxLengthValidator)]:
        given["max_length"] = longest[0]
    elif validators:
        given["validators"] = validators
    if "default" in options or "required" in options:
        given.pop("required", None)
    return kind(**{**given, **options})


def _build(name: str, column: Any) -> tuple[Any, dict[str, Any]]:
    if isinstance(column, TextListField):
        takes_null = column.null or column.rule is not None
        return partial(TextsField, column), {"required": False, "allow_null": takes_null, "help_text": column.help_text}
    kind, given = serializers.ModelSerializer().build_standard_field(name, column)
    return kind, dict(given)


def _is_common(validator: Any) -> bool:
    return not isinstance(validator, UniqueValidator) and getattr(validator, "code", "") in COMMON_CODES
