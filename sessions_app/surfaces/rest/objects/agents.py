"""Agents, the versions of their configuration, and their files."""

from functools import partial
from typing import Any, ClassVar

from rest_framework import serializers
from rest_framework.serializers import BooleanField, CharField, DictField, IntegerField, JSONField, ListField, UUIDField

from agents_app.configuration.agent_access import Sharing
from agents_app.models import Agent
from agents_app.types.agent_limits import BUDGETS, LONGEST_MODEL, LONGEST_PROVIDER, MOST_FALLBACKS
from sessions_app.surfaces.base.model_fields import model_field
from sessions_app.surfaces.base.serializers import CamelCaseSerializer, NullableText, ObjectSerializer, Timestamp
from sessions_app.surfaces.rest.objects.field_types import SchemaField, check_finite
from tools_app import catalogue
from tools_app.policy.scope import ScopeMode
from tools_app.registry import tools


def check_tools_exist(names: list[str]) -> None:
    """Raise ValidationError for a name that no tool has."""
    if unknown := [name for name in names if catalogue.find_tool(name, "") is None]:
        raise serializers.ValidationError(f"There is no tool {unknown[0]!r}. Known: {', '.join(tools.names())}.")


def _budget(kind: Any, name: str) -> Any:
    validators = [] if BUDGETS[name].is_whole else [check_finite]
    return kind(required=False, allow_null=True, min_value=0, max_value=BUDGETS[name].most, validators=validators)


class BudgetsBody(serializers.Serializer[Any]):
    """Limits per hour, and of costs per day and month (UTC), stored under these names. Missing or null: unlimited."""

    actionsPerHour = _budget(serializers.IntegerField, "actionsPerHour")  # noqa: N815
    costPerHour = _budget(serializers.FloatField, "costPerHour")  # noqa: N815
    costPerDay = _budget(serializers.FloatField, "costPerDay")  # noqa: N815
    costPerMonth = _budget(serializers.FloatField, "costPerMonth")  # noqa: N815

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if isinstance(data, dict) and (unknown := sorted(map(str, set(data) - set(self.fields)))):
            known = ", ".join(self.fields)
            raise serializers.ValidationError(f"There is no budget {unknown[0][:60]!r}. Use one of: {known}.")
        return {name: value for name, value in super().to_internal_value(data).items() if value is not None}

    def to_representation(self, instance: dict[str, Any]) -> dict[str, Any]:
        return {name: instance.get(name) for name in self._declared_fields}


class FallbackBody(serializers.Serializer[Any]):
    """A model that answers while those before it cannot."""

    provider = serializers.CharField(max_length=LONGEST_PROVIDER)
    model = serializers.CharField(
        required=False,
        default="",
        max_length=LONGEST_MODEL,
        allow_blank=True,
        help_text="Name of a model. Empty: the default of the provider.",
    )

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        found = super().to_internal_value(data)
        if "provider" not in found:  # a partial update requires no field
            raise serializers.ValidationError({"provider": "This field is required."})
        return {"model": "", **found}


_MOST_SERVERS = 100


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


class SharingBody(CamelCaseSerializer):
    """The users, besides the owner, who may use an agent. Replaces the stored sharing as a whole."""

    everyone = BooleanField(required=False)
    users = ListField(required=False, child=CharField(max_length=150), max_length=500, help_text="User names.")
    groups = ListField(required=False, child=CharField(max_length=150), max_length=100)

    def validate(self, attrs: dict[str, Any]) -> Any:
        users, groups = (tuple(attrs.get(name, ())) for name in ("users", "groups"))
        return Sharing(attrs.get("everyone", False), users, groups)


_column = partial(model_field, Agent)


class AgentBody(CamelCaseSerializer):
    """An agent as a client may set it; an update may send any part of it. A list replaces the stored one."""

    agent_id = _column("agent_id")
    name = _column("name")
    description = _column("description")
    starters = _column("starters")
    system_prompt = _column("system_prompt")
    template = _column("template")
    template_parameters = DictField(required=False, help_text="Values of the template's parameters.")
    model_id = _column("model_id")
    max_context_tokens = _column("max_context_tokens")
    memory_budget_tokens = _column("memory_budget_tokens")
    parallel_tool_calls = _column(
        "parallel_tool_calls", help_text="Allow several tool calls in one response. Null: default of the model server."
    )
    enabled_skill_ids = _column("enabled_skill_ids")
    allowed_channels = _column("allowed_channels")
    enabled_tools = _column("enabled_tools", validators=[check_tools_exist], help_text="Null: all.")
    tool_profile = _column("tool_profile")
    workstream_agents = _column("workstream_agents")
    autonomy = _column("autonomy")
    needs_two_approvers = _column("needs_two_approvers")
    allowed_tools = _column("allowed_tools")
    denied_tools = _column("denied_tools")
    always_ask = _column("always_ask")
    auto_approve = _column("auto_approve")
    allowed_hosts = _column("allowed_hosts")
    denied_hosts = _column("denied_hosts")
    egress_servers = _column("egress_servers")
    busy_policy = _column("busy_policy")
    queue_limit = _column("queue_limit")
    max_tool_rounds = _column("max_tool_rounds")
    max_active_seconds = _column("max_active_seconds")
    max_call_seconds = _column("max_call_seconds")
    max_idle_seconds = _column("max_idle_seconds")
    max_tries = _column("max_tries")
    retry_first_seconds = _column("retry_first_seconds")
    retry_max_seconds = _column("retry_max_seconds")
    output_schema = SchemaField(required=False)
    output_retries = _column("output_retries")
    mcp_servers = McpServersField(required=False, source="*")
    budgets = BudgetsBody(required=False)
    model_provider = CharField(required=False, source="provider", max_length=LONGEST_PROVIDER)
    fallbacks = ListField(required=False, child=FallbackBody(), max_length=MOST_FALLBACKS)
    sharing = SharingBody(required=False)


class ImportQuery(CamelCaseSerializer):
    dry_run = BooleanField(default=False, help_text="Show the changes and write nothing.")


class DiffQuery(CamelCaseSerializer):
    to = IntegerField(
        min_value=0,
        max_value=2**31 - 1,
        default=None,
        allow_null=True,
        help_text="Number of a version. Default: the current one.",
    )


class GrantOut(ObjectSerializer):
    grant_id = UUIDField(source="id")
    pattern = CharField()
    granted_by = CharField()
    created_at = Timestamp()


class AgentSummaryOut(ObjectSerializer):
    """An agent as users see it who may use it, but neither change nor see its configuration."""

    agent_id = CharField()
    name = CharField()
    description = CharField(allow_null=True)


class SharingOut(ObjectSerializer):
    everyone = BooleanField()
    users = ListField(child=CharField(), help_text="User names.")
    groups = ListField(child=CharField())


class AgentOut(AgentBody, ObjectSerializer):
    """Of a row with its provider."""

    model_provider = CharField(source="provider.name")
    sharing = SharingOut()  # type: ignore[assignment]
    optional: ClassVar[tuple[str, ...]] = ("sharing",)
    owner_id = CharField(allow_null=True)
    version = IntegerField(help_text="Number of the current version.")
    created_at = Timestamp()
    updated_at = Timestamp()


class AgentInFullOut(AgentOut):
    grants = ListField(child=GrantOut())
    optional = ()


class VersionOut(ObjectSerializer):
    number = IntegerField(help_text="Number of the version; 0 is the draft.")
    note = CharField()
    changed_by = NullableText(source="actor")
    created_at = Timestamp()


class VersionInFullOut(VersionOut):
    configuration = DictField(help_text="Values by field; the provider and other objects by name.")


class FieldChangeOut(ObjectSerializer):
    field = CharField(source="field_name")
    before = JSONField(allow_null=True)
    after = JSONField(allow_null=True)
    diff = NullableText(help_text="A unified diff of long texts.")


class ImportedAgentOut(ObjectSerializer):
    """The effect of an import on one agent of the file."""

    agent_id = CharField()
    is_new = BooleanField()
    changes = ListField(
        child=FieldChangeOut(),
        help_text="Changed fields; empty if the agent is as in the file, all fields of a new one.",
    )
