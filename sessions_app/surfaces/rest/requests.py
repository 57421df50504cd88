"""What this surface accepts: every request body and query, checked and turned into our own names."""

from datetime import timedelta
from typing import Any

from django.utils import timezone
from rest_framework import serializers

from agents_app.models import Agent
from sessions_app.conversation.session_key import SessionKey
from sessions_app.identity.principal import SCOPES
from sessions_app.models import Session
from sessions_app.surfaces.rest.envelope import Page
from sessions_app.surfaces.rest.policy_fields import PolicyBody
from sessions_app.surfaces.rest.scope_field import ScopeField
from tools_app import catalogue
from tools_app.policy.scope import INHERIT, ScopeMode
from tools_app.registry import tools
from tools_app.storage import artifact_paths
from tools_app.types import ApprovalStatus, Decision

DEFAULT_PAGE_SIZE = 50
LARGEST_PAGE_SIZE = 200
_LONGEST_KEY = Session._meta.get_field("key").max_length or 0


class LoginBody(serializers.Serializer[Any]):
    email = serializers.CharField(max_length=254, help_text="E-mail address or user name.")
    password = serializers.CharField(max_length=4096, trim_whitespace=False)


class RefreshBody(serializers.Serializer[Any]):
    refreshToken = serializers.CharField(max_length=200, source="refresh_token")  # noqa: N815


class LogoutBody(serializers.Serializer[Any]):
    refreshToken = serializers.CharField(  # noqa: N815
        max_length=200, source="refresh_token", default="", help_text="Not needed beside a JWT as Bearer."
    )


class MessageBody(serializers.Serializer[Any]):
    senderId = serializers.CharField(max_length=200, source="sender_id")  # noqa: N815
    text = serializers.CharField(allow_blank=True, trim_whitespace=False)
    displayName = serializers.CharField(  # noqa: N815
        max_length=200, source="display_name", default="", allow_null=True, allow_blank=True
    )
    accountId = serializers.CharField(max_length=120, source="account_id", default="default")  # noqa: N815
    sessionId = serializers.CharField(  # noqa: N815
        max_length=_LONGEST_KEY, source="session_id", default="", allow_null=True, allow_blank=True
    )
    agentId = serializers.CharField(max_length=120, source="agent_id", default="default")  # noqa: N815
    tools = ScopeField(default=INHERIT, help_text="The tools that may be used for this message.")
    mcpServers = ScopeField(  # noqa: N815
        source="mcp_servers", default=INHERIT, help_text="The MCP servers whose tools may be used for this message."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if len(str(SessionKey("WebChat", attrs["account_id"], attrs["sender_id"]))) > _LONGEST_KEY:
            raise serializers.ValidationError({"senderId": f"The session id would exceed {_LONGEST_KEY} characters."})
        return attrs


class BindBody(serializers.Serializer[Any]):
    agentId = serializers.CharField(max_length=120, source="agent_id")  # noqa: N815


class CancelBody(serializers.Serializer[Any]):
    runId = serializers.UUIDField(source="run_id", default=None, allow_null=True)  # noqa: N815


class McpServersField(serializers.Field[Any, Any, Any, Any]):
    """`none`, `inherit`, or a list of names."""

    json_schema = {
        "anyOf": [{"enum": ["none", "inherit"]}, {"type": "array", "items": {"type": "string"}, "maxItems": 100}]
    }

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if data in (ScopeMode.NONE.value, ScopeMode.INHERIT.value):
            return {"mcp_servers_mode": data, "mcp_servers": []}
        if isinstance(data, list) and len(data) <= 100 and all(isinstance(name, str) for name in data):
            return {"mcp_servers_mode": ScopeMode.LIST.value, "mcp_servers": [name[:24] for name in data]}
        raise serializers.ValidationError('Must be "none", "inherit" or a list of names.')


class AgentBody(PolicyBody):
    """A whole agent; for an update any part of it. Fields left out keep their value, or get the default."""

    agentId = serializers.SlugField(max_length=120, source="agent_id")  # noqa: N815
    name = serializers.CharField(max_length=200)
    description = serializers.CharField(required=False, allow_null=True, allow_blank=True)
    systemPrompt = serializers.CharField(required=False, source="system_prompt", allow_blank=True)  # noqa: N815
    modelProvider = serializers.CharField(required=False, source="provider", max_length=60)  # noqa: N815
    modelId = serializers.CharField(  # noqa: N815
        required=False, source="model_id", max_length=200, allow_blank=True
    )
    maxContextTokens = serializers.IntegerField(  # noqa: N815
        required=False, source="max_context_tokens", min_value=1000, max_value=10_000_000
    )
    enabledSkillIds = serializers.ListField(  # noqa: N815
        required=False, source="enabled_skill_ids", child=serializers.CharField(max_length=120), max_length=200
    )
    allowedChannels = serializers.ListField(  # noqa: N815
        required=False, source="allowed_channels", child=serializers.CharField(max_length=40), max_length=50
    )
    enabledTools = serializers.ListField(  # noqa: N815
        required=False, source="enabled_tools", child=serializers.CharField(max_length=120), allow_null=True
    )
    mcpServers = McpServersField(required=False, source="*")  # noqa: N815
    busyPolicy = serializers.ChoiceField(required=False, source="busy_policy", choices=Agent.BUSY)  # noqa: N815
    queueLimit = serializers.IntegerField(  # noqa: N815
        required=False, source="queue_limit", min_value=0, max_value=1000
    )
    maxToolRounds = serializers.IntegerField(  # noqa: N815
        required=False, source="max_tool_rounds", min_value=0, max_value=100
    )
    maxActiveSeconds = serializers.IntegerField(  # noqa: N815
        required=False, source="max_active_seconds", min_value=1, max_value=3600
    )
    maxCallSeconds = serializers.IntegerField(  # noqa: N815
        required=False, source="max_call_seconds", min_value=1, max_value=3600
    )
    maxIdleSeconds = serializers.IntegerField(  # noqa: N815
        required=False, source="max_idle_seconds", min_value=1, max_value=3600
    )
    maxTries = serializers.IntegerField(required=False, source="max_tries", min_value=1, max_value=10)  # noqa: N815

    def validate_enabledTools(self, value: list[str] | None) -> list[str] | None:  # noqa: N802 - named by the field
        if unknown := [name for name in value or () if catalogue.find_tool(name, "") is None]:
            raise serializers.ValidationError(f"There is no tool {unknown[0]!r}. Known: {', '.join(tools.names())}.")
        return value


class ReceiptBody(serializers.Serializer[Any]):
    receipt = serializers.CharField(max_length=200)


class ApiKeyBody(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=120)
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=sorted(SCOPES)), default=list)
    expiresInDays = serializers.IntegerField(  # noqa: N815
        source="expires_at", min_value=1, max_value=3650, default=None, allow_null=True
    )

    def validate_expiresInDays(self, days: int | None) -> Any:  # noqa: N802 - named by the field
        return None if days is None else timezone.now() + timedelta(days=days)


class CredentialBody(serializers.Serializer[Any]):
    """How long a value may be, the vault says."""

    value = serializers.CharField(trim_whitespace=False, allow_blank=True)


class NewCredentialBody(CredentialBody):
    name = serializers.CharField(max_length=120)


class PageQuery(serializers.Serializer[Any]):
    page = serializers.IntegerField(min_value=1, max_value=100_000, default=1)
    pageSize = serializers.IntegerField(  # noqa: N815
        min_value=1, max_value=LARGEST_PAGE_SIZE, default=DEFAULT_PAGE_SIZE
    )

    @property
    def wanted(self) -> Page:
        return Page(self.validated_data["page"], self.validated_data["pageSize"])


class SkillQuery(PageQuery):
    publisherId = serializers.CharField(max_length=120, default="", source="publisher_id")  # noqa: N815
    category = serializers.CharField(max_length=60, default="")
    verifiedOnly = serializers.BooleanField(default=False, source="verified_only")  # noqa: N815


class VersionQuery(serializers.Serializer[Any]):
    version = serializers.CharField(max_length=60, default="", help_text="Empty: the newest.")


class InstallBody(VersionQuery):
    grantedPermissions = serializers.ListField(  # noqa: N815
        source="granted",
        default=None,
        allow_null=True,
        max_length=100,
        help_text='"crm:read" or {"resource", "access", "scope"}; left out: all that it requires.',
    )


class GrantBody(serializers.Serializer[Any]):
    grantedPermissions = serializers.ListField(source="granted", max_length=100)  # noqa: N815


class HistoryQuery(PageQuery):
    maxTurns = serializers.IntegerField(  # noqa: N815
        min_value=1, max_value=1000, default=None, allow_null=True, help_text="The newest so many, on one page."
    )

    @property
    def wanted(self) -> Page:
        newest = self.validated_data["maxTurns"]
        return super().wanted if newest is None else Page(1, newest)


class UploadQuery(serializers.Serializer[Any]):
    path = serializers.CharField(
        max_length=artifact_paths.MAX_CHARACTERS,
        trim_whitespace=False,
        help_text="Such as files/report.pdf; `files/report (2).pdf` where another file is in the way.",
    )
    replace = serializers.BooleanField(default=False, help_text="Put it in the place of a file that is in the way.")


class ApprovalQuery(PageQuery):
    status = serializers.ChoiceField(choices=["", *(status.value for status in ApprovalStatus)], default="")


class DecideBody(serializers.Serializer[Any]):
    decision = serializers.ChoiceField(choices=[choice.value for choice in Decision])
    note = serializers.CharField(max_length=1000, default="", allow_blank=True, help_text="Told to the model.")


class ControlBody(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=300, default="", allow_blank=True, help_text="Why: shown and recorded.")
    agentId = serializers.CharField(  # noqa: N815
        max_length=120, source="agent_id", default="", allow_blank=True, help_text="Only this agent; empty: all."
    )


class AuditQuery(PageQuery):
    action = serializers.CharField(max_length=64, default="")
    actorId = serializers.CharField(max_length=200, default="", source="actor")  # noqa: N815
    agentId = serializers.CharField(max_length=120, default="", source="agent_id")  # noqa: N815
    sessionId = serializers.CharField(max_length=512, default="", source="session")  # noqa: N815
    to = serializers.DateTimeField(default=None, source="until")

    def get_fields(self) -> dict[str, Any]:
        # `from` cannot be an attribute's name
        return {**super().get_fields(), "from": serializers.DateTimeField(default=None, source="since")}
