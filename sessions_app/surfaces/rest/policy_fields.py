"""The part of an agent's body that says what it may do: lists of patterns and hosts, and budgets, each checked."""

import math
from collections.abc import Callable
from typing import Any

from rest_framework import serializers

from agents_app.models import Agent
from tools_app.policy.globs import PatternError
from tools_app.policy.patterns import LONGEST, check_host, check_pattern

_MOST_RULES = 200


class RulesField(serializers.ListField):
    """A list of rules, each once; null means none."""

    def __init__(self, check: Callable[[str], str], **options: Any) -> None:
        self._check = check
        rule = serializers.CharField(max_length=LONGEST)
        super().__init__(required=False, allow_null=True, max_length=_MOST_RULES, child=rule, **options)

    def run_validation(self, data: Any = serializers.empty) -> Any:
        return [] if data is None else super().run_validation(data)

    def to_internal_value(self, data: Any) -> list[str]:
        return list(dict.fromkeys(self._checked(text) for text in super().to_internal_value(data)))

    def _checked(self, text: str) -> str:
        try:
            return self._check(text)
        except PatternError as error:
            raise serializers.ValidationError(str(error)) from None


class BudgetsBody(serializers.Serializer[Any]):
    """What is left out, or null, is without a limit."""

    actionsPerHour = serializers.IntegerField(  # noqa: N815
        required=False, allow_null=True, min_value=0, max_value=1_000_000_000
    )
    costPerHour = serializers.FloatField(  # noqa: N815
        required=False, allow_null=True, min_value=0, max_value=1e12
    )

    def validate_costPerHour(self, value: float | None) -> float | None:  # noqa: N802 - named by the field
        if value is not None and not math.isfinite(value):
            raise serializers.ValidationError("A valid number is required.")
        return value

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if isinstance(data, dict) and (unknown := sorted(map(str, set(data) - set(self.fields)))):
            raise serializers.ValidationError(f"{unknown[0][:60]!r} is no budget. Known: {', '.join(self.fields)}.")
        return {name: value for name, value in super().to_internal_value(data).items() if value is not None}


class SessionPolicyBody(serializers.Serializer[Any]):
    """What a session takes away from its agents. What is left out is taken away no more."""

    readonly = serializers.BooleanField(default=False)
    deniedTools = RulesField(check_pattern, source="denied_tools")  # noqa: N815


class PolicyBody(serializers.Serializer[Any]):
    """What the agent may do. A list given replaces the stored one."""

    autonomy = serializers.ChoiceField(required=False, choices=Agent.AUTONOMY)
    allowedTools = RulesField(check_pattern, source="allowed_tools")  # noqa: N815
    deniedTools = RulesField(check_pattern, source="denied_tools")  # noqa: N815
    alwaysAsk = RulesField(check_pattern, source="always_ask")  # noqa: N815
    autoApprove = RulesField(check_pattern, source="auto_approve")  # noqa: N815
    allowedHosts = RulesField(check_host, source="allowed_hosts")  # noqa: N815
    deniedHosts = RulesField(check_host, source="denied_hosts")  # noqa: N815
    budgets = BudgetsBody(required=False)
