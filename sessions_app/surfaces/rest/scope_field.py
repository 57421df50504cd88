"""The field of a message that limits the tools, or the MCP servers, that may be used for it."""

from typing import Any, ClassVar

from rest_framework import serializers

from tools_app.policy.scope import Scope, ScopeMode

_MODES = [mode.value for mode in ScopeMode]
_MOST_NAMES, _LONGEST_NAME = 100, 120


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

    def to_representation(self, value: Scope) -> dict[str, Any]:
        return value.to_dict()
