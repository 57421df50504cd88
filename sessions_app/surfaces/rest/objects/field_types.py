"""Types of fields that several objects have: finite numbers, JSON Schemas."""

import math
from typing import Any

from rest_framework import serializers

from agents_app.structured_output import check_schema
from audit_app.kernel.errors import InvalidInput
from sessions_app.surfaces.base.serializers import check_storable


def check_finite(value: float) -> None:
    if not math.isfinite(value):
        raise serializers.ValidationError("A valid number is required.")


class SchemaField(serializers.DictField):
    """The JSON Schema of an answer."""

    def __init__(self, **options: Any) -> None:
        given: dict[str, Any] = {"allow_null": True, "help_text": "JSON Schema of the answer; null: text.", **options}
        super().__init__(validators=[check_storable], **given)

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        try:
            return check_schema(data)
        except InvalidInput as error:
            raise serializers.ValidationError(error.message) from None
