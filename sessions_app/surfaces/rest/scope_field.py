"""The field in which a message says which tools, or MCP servers, may be used for it."""

from typing import Any

from rest_framework import serializers

from tools_app.policy.scope import Scope, ScopeMode

_MOST_NAMES, _LONGEST_NAME = 100, 120
_FIELDS = {"mode", "names"}


class ScopeField(serializers.Field[Scope, Any, Any, Any]):
    """`{"mode": "none" | "inherit" | "list", "names": […]}`; names belong to a list, and an empty list means none."""

    json_schema = {
        "type": "object",
        "properties": {
            "mode": {"enum": [mode.value for mode in ScopeMode]},
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
        if not isinstance(data, dict) or not data.keys() <= _FIELDS:
            raise serializers.ValidationError('An object with "mode" and, for a list, "names".')
        modes = [mode.value for mode in ScopeMode]
        if data.get("mode") not in modes:
            raise serializers.ValidationError(f"mode is one of {', '.join(modes)}.")
        mode, names = ScopeMode(data["mode"]), data.get("names", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise serializers.ValidationError("names is a list of texts.")
        if len(names) > _MOST_NAMES or not all(0 < len(name) <= _LONGEST_NAME and name.isprintable() for name in names):
            raise serializers.ValidationError(
                f"names has up to {_MOST_NAMES} of 1 to {_LONGEST_NAME} characters that can be seen."
            )
        is_list = mode is ScopeMode.LIST
        if is_list and "names" not in data or names and not is_list:
            raise serializers.ValidationError("names belongs to the mode list, which needs it.")
        return Scope(mode, tuple(dict.fromkeys(names)))

    def to_representation(self, value: Scope) -> dict[str, Any]:
        return value.to_dict()
