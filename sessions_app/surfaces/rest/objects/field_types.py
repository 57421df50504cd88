"""Types of fields that several objects have: rules for calls and hosts, finite numbers, JSON Schemas."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from rest_framework import serializers

from agents_app.structured_output import check_schema
from audit_app.kernel.errors import InvalidInput
from sessions_app.surfaces.base.serializers import check_storable
from tools_app.host_rules import PatternError, check_host
from tools_app.policy.patterns import LONGEST, check_pattern

_MOST_RULES = 200


class RulesField(serializers.ListField):
    """A list of rules without duplicates. Null is stored as an empty list."""

    output_schema: ClassVar = {"type": "array", "items": {"type": "string"}}

    def __init__(self, check: Callable[[str], str], **options: Any) -> None:
        self._check = check
        rule = serializers.CharField(max_length=LONGEST)
        super().__init__(allow_null=True, max_length=_MOST_RULES, child=rule, **options)

    def run_validation(self, data: Any = serializers.empty) -> Any:
        return [] if data is None else super().run_validation(data)

    def to_internal_value(self, data: Any) -> list[str]:
        try:
            return list(dict.fromkeys(map(self._check, super().to_internal_value(data))))
        except PatternError as error:
            raise serializers.ValidationError(str(error)) from None


# Optional lists of patterns: of tool calls, and of hosts.
call_rules = partial(RulesField, check_pattern, required=False)
host_rules = partial(RulesField, check_host, required=False)


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
