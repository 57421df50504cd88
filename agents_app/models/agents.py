"""Agents."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator, validate_slug
from django.db import models

from agents_app.models.providers import ModelProvider
from agents_app.models.templates import template_field, template_parameters_field
from agents_app.structured_output import check_schema
from agents_app.types.agent_limits import check_budgets, check_chain
from audit_app.kernel.ids import new_id
from audit_app.kernel.rules import CheckedJSONField, TextListField
from tools_app import profiles
from tools_app.host_rules import check_host
from tools_app.models.mcp import check_server_name
from tools_app.policy.patterns import LONGEST, check_pattern

# Addresses below /api/agents that are taken.
_RESERVED_ID = RegexValidator(
    r"^import\Z", "The agent id 'import' is reserved. Choose another one.", code="reserved_id", inverse_match=True
)


def _limits(least: int, most: int) -> list[Any]:
    return [MinValueValidator(least), MaxValueValidator(most)]


def _patterns(help_text: str) -> Any:
    return TextListField(most=200, longest=LONGEST, rule=check_pattern, default=list, blank=True, help_text=help_text)


def _agent_id(value: str) -> str:
    validate_slug(value)
    return value


def _hosts(help_text: str) -> Any:
    return TextListField(most=200, longest=LONGEST, rule=check_host, default=list, blank=True, help_text=help_text)


class Agent(models.Model):
    """An agent: a prompt, a model and its permissions. It is retired, never deleted, because runs refer to it."""

    AUTONOMY = [("readonly", "read only"), ("supervised", "supervised"), ("full", "full")]
    SCOPES = [("none", "none"), ("inherit", "inherit"), ("list", "list")]
    BUSY = [("queue", "queue"), ("reject", "reject"), ("interrupt", "interrupt"), ("steer", "steer")]

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    agent_id = models.SlugField(
        max_length=120, unique=True, validators=[_RESERVED_ID], help_text="Public id, used in the API."
    )
    name = models.CharField(max_length=200)
    description = models.TextField(blank=True, null=True)  # noqa: DJ001 - null and empty differ in the API
    starters = TextListField(
        most=8,
        longest=300,
        default=list,
        db_default=models.Value([], models.JSONField()),
        blank=True,
        help_text="Messages that a new chat with the agent offers as buttons.",
    )
    system_prompt = models.TextField(blank=True, default="You are a helpful enterprise AI assistant.")
    template = template_field()
    template_parameters = template_parameters_field()
    template_parts: Sequence[Any] = ()  # the rendered template, set for one claim by `prompt_templates.use_template`
    provider = models.ForeignKey(ModelProvider, on_delete=models.PROTECT, related_name="agents")
    model_id = models.CharField(max_length=200, blank=True, help_text="Empty: default model of the provider.")
    max_context_tokens = models.PositiveIntegerField(default=100_000, validators=_limits(1000, 10_000_000))
    memory_budget_tokens = models.PositiveIntegerField(
        default=400,
        db_default=400,
        validators=_limits(0, 20_000),
        help_text="Limit of remembered facts about the user in each request, in tokens. 0: none.",
    )
    parallel_tool_calls = models.BooleanField(
        null=True,
        blank=True,
        help_text="Allow several tool calls in one response. Unknown: default of the model server.",
    )
    enabled_skill_ids = TextListField(most=200, longest=120, default=list, blank=True)
    allowed_channels = TextListField(most=50, longest=40, default=list, blank=True, help_text="Empty: all channels.")
    enabled_tools = TextListField(
        most=1000, longest=120, null=True, blank=True, help_text="Names of tools. Empty: all registered tools."
    )
    tool_profile = models.CharField(
        max_length=20,
        choices=profiles.CHOICES,
        default=profiles.ALL,
        db_default=profiles.ALL,
        help_text="Built-in tools that each model call lists. The agent finds other tools by a search.",
    )
    mcp_servers_mode = models.CharField(
        max_length=8,
        choices=SCOPES,
        default="inherit",
        help_text="MCP servers this agent may use: none, the installation's default, or a list.",
    )
    mcp_servers = TextListField(
        most=100, longest=24, default=list, blank=True, help_text="Names of MCP servers, for the mode list."
    )
    egress_servers = TextListField(
        most=100,
        longest=24,
        rule=check_server_name,
        default=list,
        db_default=models.Value([], models.JSONField()),
        blank=True,
        help_text="Names of MCP servers that get data without approval after a run has read from outside.",
    )
    workstream_agents = TextListField(
        most=50,
        longest=120,
        rule=_agent_id,
        default=list,
        db_default=models.Value([], models.JSONField()),
        blank=True,
        help_text="Ids of other agents that it may launch as workstreams.",
    )
    autonomy = models.CharField(max_length=12, choices=AUTONOMY, default="supervised")
    allowed_tools = _patterns("Patterns of allowed tool calls. Empty: all.")
    denied_tools = _patterns("Patterns of tool calls that are always denied.")
    always_ask = _patterns("Patterns of tool calls that always need approval.")
    auto_approve = _patterns("Patterns of tool calls that need no approval.")
    needs_two_approvers = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Two people, neither of them the requester, must allow each call of high risk.",
    )
    allowed_hosts = _hosts("Hosts that tools may connect to. Empty: all.")
    denied_hosts = _hosts("Hosts that tools must not connect to.")
    fallbacks = CheckedJSONField(
        rule=check_chain,
        default=list,
        db_default=models.Value([], models.JSONField()),
        blank=True,
        help_text='Models that answer while its own cannot, in this order: [{"provider": name, "model": name}].',
    )
    budgets = CheckedJSONField(
        rule=check_budgets, default=dict, blank=True, help_text='{"actionsPerHour": n, "costPerHour": n}'
    )
    busy_policy = models.CharField(
        max_length=12, choices=BUSY, default="queue", help_text="Handling of a message to a session that is still busy."
    )
    queue_limit = models.PositiveIntegerField(
        default=20, validators=_limits(0, 1000), help_text="Limit of messages that wait in a busy session."
    )
    max_tool_rounds = models.PositiveIntegerField(default=10, validators=_limits(0, 100))
    max_active_seconds = models.PositiveIntegerField(default=120, validators=_limits(1, 3600))
    max_call_seconds = models.PositiveIntegerField(default=300, validators=_limits(1, 3600))
    max_idle_seconds = models.PositiveIntegerField(
        default=60, validators=_limits(1, 3600), help_text="Longest pause of a model's stream."
    )
    max_tries = models.PositiveIntegerField(default=2, validators=_limits(1, 10))
    output_schema = CheckedJSONField(
        rule=check_schema,
        null=True,
        blank=True,
        help_text="JSON Schema of each answer. Empty: text. A message can have another one.",
    )
    output_retries = models.PositiveIntegerField(
        default=2,
        db_default=2,
        validators=_limits(0, 10),
        help_text="Limit of corrections of an answer that does not match the schema.",
    )
    retry_first_seconds = models.FloatField(default=2.0, validators=_limits(0, 3600))
    retry_max_seconds = models.FloatField(default=30.0, validators=_limits(0, 3600))
    owner_id = models.BigIntegerField(
        null=True, blank=True, help_text="User who created it. Empty: it belongs to the installation."
    )
    is_shared_with_everyone = models.BooleanField(
        "shared with everyone", default=False, db_default=False, help_text="Every user may send it messages."
    )
    shared_users = models.ManyToManyField(
        settings.AUTH_USER_MODEL,
        blank=True,
        related_name="+",
        db_table="komand_agent_user",
        help_text="Users who may send it messages, besides its owner.",
    )
    shared_groups = models.ManyToManyField(
        Group,
        blank=True,
        related_name="+",
        db_table="komand_agent_group",
        help_text="Groups whose users may send it messages.",
    )
    version = models.PositiveIntegerField(
        default=0, db_default=0, editable=False, help_text="Number of the current version. 0: none is stored yet."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    retired_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "komand_agent"
        ordering = ["agent_id"]
        permissions = [("grant_autonomy", "Can let an agent act without approval")]

    def __str__(self) -> str:
        return self.name

    def policy_for(self, chosen: str) -> str:
        """Return the busy policy that a person chooses for a message, empty for the agent's own.

        Nobody chooses for an agent that rejects messages.
        """
        return "" if self.busy_policy == "reject" else chosen
