"""The objects of agents, their skills and MCP servers, and the emergency stop, as in `responses`."""

from collections.abc import Sequence
from typing import Any, ClassVar

from rest_framework.serializers import (
    BooleanField,
    CharField,
    ChoiceField,
    DictField,
    IntegerField,
    JSONField,
    ListField,
    UUIDField,
)

from agents_app.runs.request_view import PartKind
from sessions_app.surfaces.base.serializers import (
    CamelCaseSerializer,
    Count,
    NullableChoice,
    NullableText,
    ObjectSerializer,
    Timestamp,
)
from sessions_app.surfaces.rest.objects.mcp_servers import McpServerBody
from sessions_app.surfaces.rest.requests import AgentBody
from tools_app.models import McpServer
from tools_app.policy.emergency_stop import ControlView
from tools_app.skills.manifest import Kind
from tools_app.skills.registry import SkillView
from tools_app.types import Effect, Risk


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
    version = IntegerField(help_text="Number of its present version.")
    created_at = Timestamp()
    updated_at = Timestamp()


class AgentInFullOut(AgentOut):
    grants = ListField(child=GrantOut())
    optional = ()


class PromptPartOut(ObjectSerializer):
    kind = ChoiceField(choices=list(PartKind))
    name = CharField(help_text="Of the part of the system message, the tool, or the role of the message.")
    text = CharField(help_text="Secrets are masked.")
    tokens = Count(help_text="Estimated.")


class PromptOut(ObjectSerializer):
    """The request of a model call, by the agent's present settings."""

    model = CharField()
    step = Count(help_text="Place of the model call in its run, from 0.")
    total_tokens = Count(help_text="Estimated.")
    reported_tokens = Count(allow_null=True, help_text="As the model server counted; null if it has not.")
    limit_tokens = Count(help_text="The agent's `maxContextTokens`.")
    hidden_tools = ListField(child=CharField(), help_text="Tools that are not listed and found by `find_tools`.")
    parts = ListField(child=PromptPartOut())


class VersionOut(ObjectSerializer):
    number = IntegerField(help_text="0: the draft.")
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
    changes = ListField(child=FieldChangeOut(), help_text="None if it is as in the file. Of a new one: all fields.")


class StoppedAgentOut(ObjectSerializer):
    agent_id = CharField(source="scope")
    reason = CharField()
    changed_by = NullableText()
    changed_at = Timestamp(allow_null=True)


class ControlOut(ObjectSerializer):
    stopped = BooleanField(source="is_stopped")
    reason = CharField()
    changed_by = NullableText()
    changed_at = Timestamp(allow_null=True)
    stopped_agents = ListField(child=StoppedAgentOut())


class PermissionOut(ObjectSerializer):
    resource = CharField()
    access = CharField()
    scope = NullableText()


class SkillOut(ObjectSerializer):
    skill_id = CharField()
    name = CharField()
    version = CharField()
    publisher_id = CharField()
    description = CharField()
    category = CharField()
    kind = ChoiceField(choices=list(Kind))
    input_schema = DictField()
    output_schema = DictField(allow_null=True)
    required_permissions = ListField(source="required", child=PermissionOut())
    declared_tool_access = ListField(child=CharField())
    risk = ChoiceField(choices=list(Risk))
    effect = ChoiceField(choices=list(Effect))
    timeout_seconds = IntegerField()
    signature_hash = NullableText()
    digest = CharField()
    is_verified = BooleanField()
    versions = ListField(child=CharField(), help_text="Newest first.")
    created_at = Timestamp()
    http = DictField(allow_null=True)
    mcp = DictField(allow_null=True)
    instruction = DictField(allow_null=True)

    optional = ("http", "mcp", "instruction")

    @classmethod
    def of(cls, subject: SkillView, **given: Any) -> dict[str, Any]:
        """Return the manifest as it was published, completed by its defaults and the fields of the registry."""
        own = {name: getattr(subject, name) for name in ("digest", "is_verified", "versions", "created_at")}
        return {**subject.data, **super().of(subject.manifest, **own, **given)}


class SkillInstallOut(ObjectSerializer):
    agent_id = CharField()
    skill_id = CharField()
    version = CharField()
    granted_permissions = ListField(source="granted", child=PermissionOut())
    missing_permissions = ListField(source="lacking", child=PermissionOut())
    installed_at = Timestamp()


class McpToolOut(ObjectSerializer):
    name = CharField()
    description = CharField()
    state = ChoiceField(source="status", choices=["offered", "off", "gone", "new", "changed"])
    claims = DictField(source="hints")
    risk = NullableChoice(choices=list(Risk))
    effect = NullableChoice(choices=list(Effect))
    parameters = DictField()


class McpServerOut(McpServerBody, ObjectSerializer):
    """Of a row with its tools."""

    state = ChoiceField(choices=McpServer.STATES)
    last_error = NullableText()
    reached_at = Timestamp(allow_null=True)
    tools = ListField(child=McpToolOut())

    @classmethod
    def of(cls, subject: McpServer, **given: Any) -> dict[str, Any]:
        return super().of(subject, tools=subject.tools.all(), **given)


class McpChangesOut(CamelCaseSerializer):
    new = ListField(child=CharField())
    changed = ListField(child=CharField())
    gone = ListField(child=CharField())
    left_out = DictField(child=CharField(), help_text="The reason by the name of the tool.")


class McpServerRefreshedOut(McpServerOut):
    changes = McpChangesOut()


class McpServerApprovedOut(McpServerOut):
    approved = ListField(child=CharField())


def control(everything: ControlView, stopped: Sequence[ControlView]) -> dict[str, Any]:
    """Return the state of the emergency stop, from that of all agents and the scopes that are stopped now."""
    return ControlOut.of(everything, stopped_agents=[view for view in stopped if view.scope])
