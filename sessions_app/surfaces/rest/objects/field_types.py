"""Fields of agents and messages: rules for calls and hosts, budgets, MCP servers, tools, the schema of answers."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from rest_framework import serializers

from agents_app.models import Agent
from agents_app.structured_output import check_schema
from audit_app.kernel.errors import InvalidInput
from sessions_app.surfaces.base.serializers import check_storable
from tools_app import catalogue
from tools_app.host_rules import PatternError, check_host
from tools_app.policy.patterns import LONGEST, check_pattern
from tools_app.policy.scope import Scope, ScopeMode
from tools_app.registry import tools

_MOST_RULES = 200
_MOST_SERVERS = 100
_MODES = [mode.value for mode in ScopeMode]
_MOST_NAMES, _LONGEST_NAME = 100, 120


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


class BudgetsBody(serializers.Serializer[Any]):
    """Limits per hour, and of costs per day and month (UTC), stored under these names. Missing or null: unlimited."""

    actionsPerHour = serializers.IntegerField(  # noqa: N815
        required=False, allow_null=True, min_value=0, max_value=1_000_000_000
    )
    costPerHour = serializers.FloatField(  # noqa: N815
        required=False, allow_null=True, min_value=0, max_value=1e12, validators=[check_finite]
    )
    costPerDay = serializers.FloatField(  # noqa: N815
        required=False, allow_null=True, min_value=0, max_value=1e12, validators=[check_finite]
    )
    costPerMonth = serializers.FloatField(  # noqa: N815
        required=False, allow_null=True, min_value=0, max_value=1e12, validators=[check_finite]
    )

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if isinstance(data, dict) and (unknown := sorted(map(str, set(data) - set(self.fields)))):
            known = ", ".join(self.fields)
            raise serializers.ValidationError(f"There is no budget {unknown[0][:60]!r}. Use one of: {known}.")
        return {name: value for name, value in super().to_internal_value(data).items() if value is not None}

    def to_representation(self, instance: dict[str, Any]) -> dict[str, Any]:
        return {name: instance.get(name) for name in self._declared_fields}


class FallbackBody(serializers.Serializer[Any]):
    """A model that answers while those before it cannot."""

    provider = serializers.CharField(max_length=60)
    model = serializers.CharField(
        required=False, default="", max_length=200, allow_blank=True, help_text="Empty: its default."
    )

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        found = super().to_internal_value(data)
        if "provider" not in found:  # a partial update requires no field
            raise serializers.ValidationError({"provider": "This field is required."})
        return {"model": "", **found}


def check_tools_exist(names: list[str]) -> None:
    """Raise ValidationError for a name that no tool has."""
    if unknown := [name for name in names if catalogue.find_tool(name, "") is None]:
        raise serializers.ValidationError(f"There is no tool {unknown[0]!r}. Known: {', '.join(tools.names())}.")


class McpServersField(serializers.Field[Any, Any, Any, Any]):
    """`none`, `inherit`, or a list of server names. Stored in two columns of the agent."""

    json_schema: ClassVar = {
        "anyOf": [
            {"enum": ["none", "inherit"]},
            {"type": "array", "items": {"type": "string"}, "maxItems": _MOST_SERVERS},
        ]
    }

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if data in (ScopeMode.NONE.value, ScopeMode.INHERIT.value):
            return {"mcp_servers_mode": data, "mcp_servers": []}
        is_list = isinstance(data, list) and len(data) <= _MOST_SERVERS
        if is_list and all(isinstance(name, str) and "\0" not in name for name in data):
            return {"mcp_servers_mode": ScopeMode.LIST.value, "mcp_servers": [name[:24] for name in data]}
        raise serializers.ValidationError('Must be "none", "inherit" or a list of names.')

    def to_representation(self, value: Agent) -> Any:
        return value.mcp_servers if value.mcp_servers_mode == ScopeMode.LIST else value.mcp_servers_mode


class ScopeField(serializers.Field[Scope, Any, Any, Any]):
    """`{"mode": "none" | "inherit" | "list", "names": […]}`. An empty list allows nothing."""

    json_schema: ClassVar = {
        "type": "object",
        "properties": {
            "mode": {"enum": _MODES},
            "names": {
                "type": "array",
                "items": {"type": "string", "minLength": 1, "maxLength": _LONGEST_NAME},
                "maxItems": _MOST_NAMES,
            },
        },
        "required": ["mode"],
        "additionalProperties": False,
    }

    def to_internal_value(self, data: Any) -> Scope:
        if not isinstance(data, dict) or not data.keys() <= {"mode", "names"}:
            raise serializers.ValidationError("Must be an object with `mode` and, for mode `list`, `names`.")
        if data.get("mode") not in _MODES:
            raise serializers.ValidationError(f"`mode` must be one of: {', '.join(_MODES)}.")
        mode, names = ScopeMode(data["mode"]), data.get("names", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise serializers.ValidationError("`names` must be a list of strings.")
        if len(names) > _MOST_NAMES or not all(0 < len(name) <= _LONGEST_NAME and name.isprintable() for name in names):
            raise serializers.ValidationError(
                f"`names` must have at most {_MOST_NAMES} items, each of 1 to {_LONGEST_NAME} printable characters."
            )
        is_list = mode is ScopeMode.LIST
        if is_list and "names" not in data or names and not is_list:
            raise serializers.ValidationError("`names` is required for mode `list` and not allowed otherwise.")
        return Scope(mode, tuple(dict.fromkeys(names)))
