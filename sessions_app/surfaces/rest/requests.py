"""Request bodies and queries: serializers that check them and name their fields as the code does."""

from datetime import timedelta
from typing import Any

from django.utils import timezone
from rest_framework.serializers import (
    BooleanField,
    CharField,
    ChoiceField,
    DateTimeField,
    DictField,
    IntegerField,
    ListField,
    SlugField,
    UUIDField,
    ValidationError,
)

from agents_app.configuration.agent_access import Sharing
from agents_app.configuration.fallbacks import MOST_FALLBACKS
from agents_app.models import Agent
from sessions_app.conversation.session_key import SessionKey
from sessions_app.identity.api_keys import NEVER
from sessions_app.models import Session
from sessions_app.surfaces.base.serializers import CamelCaseSerializer
from sessions_app.surfaces.rest.envelope import Page
from sessions_app.surfaces.rest.objects.field_types import (
    BudgetsBody,
    FallbackBody,
    McpServersField,
    SchemaField,
    ScopeField,
    call_rules,
    check_tools_exist,
    host_rules,
)
from tools_app import profiles
from tools_app.policy.scope import INHERIT
from tools_app.storage import artifact_paths
from tools_app.types import ApprovalStatus, Decision

DEFAULT_PAGE_SIZE = 50
LARGEST_PAGE_SIZE = 200
_LONGEST_KEY = Session._meta.get_field("key").max_length or 0


class LoginBody(CamelCaseSerializer):
    email = CharField(max_length=254, help_text="E-mail address or user name.")
    password = CharField(max_length=4096, trim_whitespace=False)
    code = CharField(
        max_length=40, default="", allow_blank=True, help_text="Of the second factor, if the user has one."
    )


class RefreshBody(CamelCaseSerializer):
    refresh_token = CharField(max_length=200)


class LogoutBody(CamelCaseSerializer):
    refresh_token = CharField(max_length=200, default="", help_text="Not needed if a JWT is sent as Bearer.")


class MessageBody(CamelCaseSerializer):
    sender_id = CharField(max_length=200)
    text = CharField(allow_blank=True, trim_whitespace=False)
    display_name = CharField(max_length=200, default="", allow_null=True, allow_blank=True)
    account_id = CharField(max_length=120, default="default")
    session_id = CharField(max_length=_LONGEST_KEY, default="", allow_null=True, allow_blank=True)
    agent_id = CharField(max_length=120, default="default")
    attachments = ListField(
        default=list, child=UUIDField(), max_length=100, help_text="Ids of files that you uploaded for it, in order."
    )
    tools = ScopeField(default=INHERIT, help_text="The tools that may be used for this message.")
    mcp_servers = ScopeField(default=INHERIT, help_text="The MCP servers whose tools may be used for this message.")
    output_schema = SchemaField(default=None)
    agent_version = IntegerField(
        min_value=0,
        max_value=2**31 - 1,
        default=None,
        allow_null=True,
        help_text="Of the agent, for those who may change it; 0: its draft.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if len(str(SessionKey("WebChat", attrs["account_id"], attrs["sender_id"]))) > _LONGEST_KEY:
            raise ValidationError({"senderId": f"The session id would exceed {_LONGEST_KEY} characters."})
        return attrs


class BindBody(CamelCaseSerializer):
    agent_id = CharField(max_length=120)


class CancelBody(CamelCaseSerializer):
    run_id = UUIDField(default=None, allow_null=True)


class RegenerateBody(CamelCaseSerializer):
    run_id = UUIDField(default=None, allow_null=True, help_text="Null: the last run of the active branch.")


class EditBody(CamelCaseSerializer):
    run_id = UUIDField(help_text="The run that answered the message.")
    text = CharField(allow_blank=True, trim_whitespace=False)


class BranchBody(CamelCaseSerializer):
    branch = IntegerField(min_value=0, max_value=2**31 - 1)


class SessionPolicyBody(CamelCaseSerializer):
    """Restrictions of a session. A missing field removes its restriction."""

    readonly = BooleanField(default=False)
    denied_tools = call_rules()


class SharingBody(CamelCaseSerializer):
    """The users, besides the owner, who may use an agent. Replaces the stored sharing as a whole."""

    everyone = BooleanField(required=False)
    users = ListField(required=False, child=CharField(max_length=150), max_length=500, help_text="User names.")
    groups = ListField(required=False, child=CharField(max_length=150), max_length=100)

    def validate(self, attrs: dict[str, Any]) -> Any:
        users, groups = (tuple(attrs.get(name, ())) for name in ("users", "groups"))
        return Sharing(attrs.get("everyone", False), users, groups)


class AgentBody(CamelCaseSerializer):
    """An agent as a client may set it; an update may send any part of it. A list replaces the stored one."""

    agent_id = SlugField(max_length=120)
    name = CharField(max_length=200)
    description = CharField(required=False, allow_null=True, allow_blank=True)
    system_prompt = CharField(required=False, allow_blank=True)
    template = CharField(
        required=False, max_length=140, allow_blank=True, help_text="Prompt template in front of the system prompt."
    )
    template_parameters = DictField(required=False, help_text="Values of the template's parameters.")
    model_id = CharField(required=False, max_length=200, allow_blank=True)
    max_context_tokens = IntegerField(required=False, min_value=1000, max_value=10_000_000)
    memory_budget_tokens = IntegerField(
        required=False,
        min_value=0,
        max_value=20_000,
        help_text="Most tokens of remembered facts about the person in each request. 0: none.",
    )
    parallel_tool_calls = BooleanField(
        required=False,
        allow_null=True,
        help_text="Whether the model may ask for several tool calls at once. Null: default of its server.",
    )
    enabled_skill_ids = ListField(required=False, child=CharField(max_length=120), max_length=200)
    allowed_channels = ListField(required=False, child=CharField(max_length=40), max_length=50, help_text="Empty: all.")
    enabled_tools = ListField(
        required=False,
        child=CharField(max_length=120),
        allow_null=True,
        validators=[check_tools_exist],
        help_text="Null: all.",
    )
    tool_profile = ChoiceField(
        required=False, choices=profiles.CHOICES, help_text="The built-in tools that each model call lists."
    )
    autonomy = ChoiceField(required=False, choices=Agent.AUTONOMY)
    needs_two_approvers = BooleanField(required=False)
    allowed_tools = call_rules()
    denied_tools = call_rules()
    always_ask = call_rules()
    auto_approve = call_rules()
    allowed_hosts = host_rules()
    denied_hosts = host_rules()
    busy_policy = ChoiceField(required=False, choices=Agent.BUSY)
    queue_limit = IntegerField(required=False, min_value=0, max_value=1000)
    max_tool_rounds = IntegerField(required=False, min_value=0, max_value=100)
    max_active_seconds = IntegerField(required=False, min_value=1, max_value=3600)
    max_call_seconds = IntegerField(required=False, min_value=1, max_value=3600)
    max_idle_seconds = IntegerField(required=False, min_value=1, max_value=3600)
    max_tries = IntegerField(required=False, min_value=1, max_value=10)
    output_schema = SchemaField(required=False)
    output_retries = IntegerField(required=False, min_value=0, max_value=10)
    mcp_servers = McpServersField(required=False, source="*")
    budgets = BudgetsBody(required=False)
    model_provider = CharField(required=False, source="provider", max_length=60)
    fallbacks = ListField(required=False, child=FallbackBody(), max_length=MOST_FALLBACKS)
    sharing = SharingBody(required=False)


class ReceiptBody(CamelCaseSerializer):
    receipt = CharField(max_length=200)


class ApiKeyBody(CamelCaseSerializer):
    name = CharField(max_length=120)
    scopes = ListField(
        child=CharField(max_length=130),
        help_text="For example `all`, `read`, `rest`, `openai:read`, `agent:default`, `rights`. None grants nothing.",
    )
    expires_in_days = IntegerField(
        min_value=1, max_value=3650, default=None, allow_null=True, help_text="By default KOMAND_API_KEY_DAYS."
    )
    never_expires = BooleanField(default=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        days, never = attrs.pop("expires_in_days"), attrs.pop("never_expires")
        return {**attrs, "expires_at": NEVER if never else days and timezone.now() + timedelta(days=days)}


class CredentialBody(CamelCaseSerializer):
    """A credential. The vault limits the length of its value. `agents` alone may change without the value."""

    value = CharField(required=False, trim_whitespace=False, allow_blank=True)
    hosts = host_rules(help_text="Hosts that it may be sent to. Needed by a new one; a change takes the value again.")
    agents = ListField(
        required=False,
        child=SlugField(max_length=120),
        max_length=200,
        help_text="Agents that may use it in runs of other users.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "value" not in attrs and ("hosts" in attrs or "agents" not in attrs):
            raise ValidationError({"value": "This field is required."})
        return attrs


class NewCredentialBody(CredentialBody):
    name = CharField(max_length=120)
    value = CharField(trim_whitespace=False, allow_blank=True)


class PageQuery(CamelCaseSerializer):
    page = IntegerField(min_value=1, max_value=100_000, default=1)
    page_size = IntegerField(min_value=1, max_value=LARGEST_PAGE_SIZE, default=DEFAULT_PAGE_SIZE)

    @property
    def wanted(self) -> Page:
        return Page(self.validated_data["page"], self.validated_data["page_size"])


class SessionQuery(PageQuery):
    query = CharField(max_length=500, default="", help_text="Sessions with a title or a message that matches.")


class PromptQuery(CamelCaseSerializer):
    # Of four bytes each, percent-encoded: the server takes a request line of 16 KiB.
    text = CharField(max_length=1_000, default="hello", help_text="The first message.")


class StepQuery(CamelCaseSerializer):
    step = IntegerField(
        min_value=0, max_value=2**31 - 1, default=None, allow_null=True, help_text="From 0. Default: the last one."
    )


class SkillQuery(PageQuery):
    publisher_id = CharField(max_length=120, default="")
    category = CharField(max_length=60, default="")
    verified_only = BooleanField(default=False)


class ImportQuery(CamelCaseSerializer):
    dry_run = BooleanField(default=False, help_text="Show the changes and write nothing.")


class DiffQuery(CamelCaseSerializer):
    to = IntegerField(
        min_value=0, max_value=2**31 - 1, default=None, allow_null=True, help_text="By default the present version."
    )


class VersionQuery(CamelCaseSerializer):
    version = CharField(max_length=60, default="", help_text="Empty: the newest.")


class InstallBody(VersionQuery):
    granted_permissions = ListField(
        source="granted",
        default=None,
        allow_null=True,
        max_length=100,
        help_text='"crm:read" or {"resource", "access", "scope"}. If missing: all that the skill requires.',
    )


class GrantBody(CamelCaseSerializer):
    granted_permissions = ListField(source="granted", max_length=100)


class HistoryQuery(PageQuery):
    max_turns = IntegerField(
        min_value=1, max_value=1000, default=None, allow_null=True, help_text="Return the newest N on one page."
    )
    failed = BooleanField(default=False, help_text="Return the turns of failed runs that have no text, too.")
    branch = IntegerField(
        min_value=0, max_value=2**31 - 1, default=None, allow_null=True, help_text="By default the active one."
    )

    @property
    def wanted(self) -> Page:
        newest = self.validated_data["max_turns"]
        return super().wanted if newest is None else Page(1, newest)


class UploadQuery(CamelCaseSerializer):
    path = CharField(
        max_length=artifact_paths.MAX_CHARACTERS,
        trim_whitespace=False,
        help_text="Such as files/report.pdf. If the path is taken, the file becomes `files/report (2).pdf`.",
    )
    replace = BooleanField(default=False, help_text="Replace a file of the same path instead.")


class AttachmentQuery(CamelCaseSerializer):
    filename = CharField(max_length=500, default="", allow_blank=True, help_text="The name that the agent sees.")


class ApprovalQuery(PageQuery):
    status = ChoiceField(choices=["", *(status.value for status in ApprovalStatus)], default="")


class DecideBody(CamelCaseSerializer):
    decision = ChoiceField(choices=[choice.value for choice in Decision])
    note = CharField(max_length=1000, default="", allow_blank=True, help_text="Passed to the model.")


class ControlBody(CamelCaseSerializer):
    reason = CharField(max_length=300, default="", allow_blank=True, help_text="Shown to users and recorded.")
    agent_id = CharField(max_length=120, default="", allow_blank=True, help_text="Empty: all agents.")


class AuditQuery(PageQuery):
    action = CharField(max_length=64, default="")
    actor_id = CharField(max_length=200, default="", source="actor")
    agent_id = CharField(max_length=120, default="")
    session_id = CharField(max_length=512, default="", source="session")
    to = DateTimeField(default=None, source="until")
    from_ = DateTimeField(default=None, source="since")
