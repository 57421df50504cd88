"""Agents, model providers, runs and their steps."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.db.models import Q

from agents_app.cost_models import CostAlert as CostAlert
from agents_app.cost_models import CostTotal as CostTotal
from agents_app.cost_models import DailyUsage as DailyUsage
from agents_app.cost_models import ModelPrice as ModelPrice
from agents_app.cost_models import Spending as Spending
from agents_app.cost_models import UserCostCap as UserCostCap
from agents_app.network_models import NetworkVersion as NetworkVersion
from agents_app.network_models import StoredNetwork as StoredNetwork
from agents_app.provider_models import ModelProvider as ModelProvider
from agents_app.recall_models import RunRecall as RunRecall
from agents_app.run_message_models import RunMessage as RunMessage
from agents_app.template_models import PromptTemplate as PromptTemplate
from agents_app.template_models import template_field, template_parameters_field
from agents_app.tree_types import ChildSpec, RunKind
from agents_app.types import RunStatus, WaitingOn
from agents_app.version_models import AgentVersion as AgentVersion
from audit_app.kernel.ids import new_id
from tools_app import profiles

ACTIVE = [RunStatus.RUNNING.value, RunStatus.WAITING.value]
OPEN = [RunStatus.QUEUED.value, *ACTIVE]
# Conditions of partial indexes and of their queries. SQLite matches a bound `status = ?` with an index, but not `IN`.
IS_ACTIVE = Q(status=RunStatus.RUNNING.value) | Q(status=RunStatus.WAITING.value)
IS_OPEN = Q(status=RunStatus.QUEUED.value) | IS_ACTIVE
IS_ROOT = Q(parent__isnull=True)
# A child run whose last result its parent has not received yet.
IS_UNCOLLECTED = Q(parent__isnull=False, end_stored=False) & (
    Q(ended_at__isnull=False) | Q(status=RunStatus.WAITING.value, waiting_on=WaitingOn.PARENT.value)
)
ENDED_BADLY = (
    Q(status=RunStatus.FAILED.value) | Q(status=RunStatus.TIMED_OUT.value) | Q(status=RunStatus.CANCELLED.value)
)


class Agent(models.Model):
    """An agent: a prompt, a model and its permissions. It is retired, never deleted, because runs refer to it."""

    AUTONOMY = [("readonly", "read only"), ("supervised", "supervised"), ("full", "full")]
    SCOPES = [("none", "none"), ("inherit", "inherit"), ("list", "list")]
    BUSY = [("queue", "queue"), ("reject", "reject"), ("interrupt", "interrupt"), ("steer", "steer")]

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    agent_id = models.SlugField(max_length=120, unique=True, help_text="Public id, used in the API.")
    name = models.CharField(max_length=200)
    description = models.TextField(blank=True, null=True)  # noqa: DJ001 - null and empty differ in the API
    system_prompt = models.TextField(default="You are a helpful enterprise AI assistant.")
    template = template_field()
    template_parameters = template_parameters_field()
    template_parts: Sequence[Any] = ()  # the rendered template, set for one claim by `prompt_templates.use_template`
    provider = models.ForeignKey(ModelProvider, on_delete=models.PROTECT, related_name="agents")
    model_id = models.CharField(max_length=200, blank=True, help_text="Empty: default model of the provider.")
    max_context_tokens = models.PositiveIntegerField(default=100_000)
    memory_budget_tokens = models.PositiveIntegerField(
        default=400,
        db_default=400,
        help_text="Most tokens of remembered facts about the person in each request. 0: none.",
    )
    parallel_tool_calls = models.BooleanField(
        null=True,
        blank=True,
        help_text="Whether the model may ask for several tool calls at once. Unknown: default of its server.",
    )
    enabled_skill_ids = models.JSONField(default=list, blank=True)
    allowed_channels = models.JSONField(default=list, blank=True, help_text="Empty: all channels.")
    enabled_tools = models.JSONField(null=True, blank=True, help_text="Names of tools. Empty: all registered tools.")
    tool_profile = models.CharField(
        max_length=20,
        choices=profiles.CHOICES,
        default=profiles.ALL,
        db_default=profiles.ALL,
        help_text="Built-in tools in every model call. The agent finds its other tools by a search.",
    )
    mcp_servers_mode = models.CharField(
        max_length=8,
        choices=SCOPES,
        default="inherit",
        help_text="MCP servers this agent may use: none, the installation's default, or a list.",
    )
    mcp_servers = models.JSONField(default=list, blank=True, help_text="Names of MCP servers, for the mode list.")
    autonomy = models.CharField(max_length=12, choices=AUTONOMY, default="supervised")
    allowed_tools = models.JSONField(default=list, blank=True, help_text="Patterns of allowed tool calls. Empty: all.")
    denied_tools = models.JSONField(
        default=list, blank=True, help_text="Patterns of tool calls that are always denied."
    )
    always_ask = models.JSONField(
        default=list, blank=True, help_text="Patterns of tool calls that always need approval."
    )
    auto_approve = models.JSONField(default=list, blank=True, help_text="Patterns of tool calls that need no approval.")
    needs_two_approvers = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Two people, neither of them the requester, must allow each call of high risk.",
    )
    allowed_hosts = models.JSONField(default=list, blank=True, help_text="Hosts that tools may connect to. Empty: all.")
    denied_hosts = models.JSONField(default=list, blank=True, help_text="Hosts that tools must not connect to.")
    fallbacks = models.JSONField(
        default=list,
        db_default=models.Value([], models.JSONField()),
        blank=True,
        help_text='Models that answer while its own cannot, in this order: [{"provider": name, "model": name}].',
    )
    budgets = models.JSONField(default=dict, blank=True, help_text='{"actionsPerHour": n, "costPerHour": n}')
    busy_policy = models.CharField(
        max_length=12, choices=BUSY, default="queue", help_text="Handling of a message to a session that is still busy."
    )
    queue_limit = models.PositiveIntegerField(default=20, help_text="Most messages that may wait in a busy session.")
    max_tool_rounds = models.PositiveIntegerField(default=10)
    max_active_seconds = models.PositiveIntegerField(default=120)
    max_call_seconds = models.PositiveIntegerField(default=300)
    max_idle_seconds = models.PositiveIntegerField(default=60, help_text="Longest pause of a model's stream.")
    max_tries = models.PositiveIntegerField(default=2)
    output_schema = models.JSONField(
        null=True, blank=True, help_text="JSON Schema of each answer. Empty: text. A message may bring its own."
    )
    output_retries = models.PositiveIntegerField(
        default=2, db_default=2, help_text="How often the model may correct an answer that does not match the schema."
    )
    retry_first_seconds = models.FloatField(default=2.0)
    retry_max_seconds = models.FloatField(default=30.0)
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
        default=0, db_default=0, editable=False, help_text="Number of its present version. 0: none is stored yet."
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


class Run(models.Model):
    """One execution of the agent loop. `owner` is the process that works on it, `fence` the number of its claim.

    Claimable: open, no owner, and `ready_at` reached or all its tool executions ended. Only runs/transitions.py changes
    `status`, `owner` and `fence` of a stored run. A run with a parent is a child run: docs/workstreams.md.
    """

    STATUSES = [(status.value, status.value) for status in RunStatus]
    KINDS = [(kind.value, kind.value) for kind in RunKind]
    WAITS = [(wait.value, wait.value) for wait in WaitingOn]

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    conversation_id = models.UUIDField()
    session_key = models.CharField(max_length=512, blank=True, help_text="Public session id, for the audit log.")
    ordinal = models.IntegerField(help_text="Place in the queue of the conversation.")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="runs")
    status = models.CharField(max_length=12, choices=STATUSES, default=RunStatus.QUEUED.value)
    waiting_on = models.CharField(max_length=12, choices=WAITS, blank=True)
    owner = models.UUIDField(null=True, help_text="Process that executes it.")
    fence = models.IntegerField(default=0)
    crashes = models.IntegerField(default=0)
    crash_share = models.FloatField(
        default=0.0, db_default=0.0, help_text="Its share of these crashes: the limit's unit."
    )
    tries = models.IntegerField(default=0, help_text="Failed tries of the current model call.")
    ready_at = models.DateTimeField(
        null=True, help_text="Time from which it may be claimed. Null: it has an owner, or waits."
    )
    fallback = models.JSONField(
        null=True, help_text="The entry of the agent's fallback chain that it uses (run_cost.Fallback)."
    )
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    active_seconds = models.FloatField(default=0.0)
    user_turn_count = models.IntegerField(
        db_column="words",
        default=1,
        help_text="Number of user turns it answers: more than 1 if steered, 0 for a retry.",
    )
    answer = models.TextField(blank=True)
    error_code = models.CharField(max_length=60, blank=True)
    error_message = models.TextField(blank=True)
    input_tokens = models.IntegerField(default=0)
    output_tokens = models.IntegerField(default=0)
    cost_nanos = models.BigIntegerField(
        default=0, db_default=0, help_text="Cost of its priced calls, in billionths of the currency's unit."
    )
    priced_calls = models.IntegerField(default=0, db_default=0)
    session_policy = models.JSONField(
        default=dict,
        blank=True,
        help_text="Restrictions of its session when the message was received: {readonly, deniedTools}.",
    )
    options = models.JSONField(default=dict, blank=True, help_text="Options of its message (types.RunOptions).")
    agent_version = models.PositiveIntegerField(
        null=True, help_text="Version of the agent at its last claim. 0: the draft. Null: none was stored."
    )
    actor = models.CharField(max_length=200)
    request_id = models.CharField(max_length=128, blank=True)
    end_stored = models.BooleanField(
        db_column="conversation_told",
        default=False,
        help_text="Whether the conversation has its end. Of a child run: whether its parent has its result.",
    )
    parent = models.ForeignKey("self", on_delete=models.CASCADE, null=True, related_name="children")
    root = models.ForeignKey("self", on_delete=models.CASCADE, null=True, related_name="+", help_text="Of a child run.")
    kind = models.CharField(max_length=12, choices=KINDS, default=RunKind.MESSAGE, db_default=RunKind.MESSAGE.value)
    workstream = models.CharField(max_length=120, blank=True, default="", db_default="", help_text="Empty: main.")
    depth = models.PositiveSmallIntegerField(default=0, db_default=0)
    spec = models.JSONField(null=True, help_text="Options of a child run (tree_types.ChildSpec).")
    child_count = models.PositiveIntegerField(default=0, db_default=0)
    deadline_at = models.DateTimeField(null=True, help_text="Of a child run. Null while it waits for its parent.")
    seconds_left = models.FloatField(null=True, help_text="Until the deadline, while the child waits for its parent.")
    alarm_at = models.DateTimeField(null=True, help_text="When the next part of its deadline has passed.")
    is_paused = models.BooleanField(default=False, db_default=False)
    terminated_at = models.DateTimeField(null=True, help_text="When its parent asked it to end.")
    budget_tokens = models.BigIntegerField(null=True, help_text="Tokens for it and its children. Null: no limit.")
    budget_nanos = models.BigIntegerField(null=True, help_text="Cost for it and its children. Null: no limit.")
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "komand_run"
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["conversation_id", "ordinal"], name="run_conversation_ordinal"),
            models.UniqueConstraint(
                fields=["conversation_id"], condition=IS_ACTIVE & IS_ROOT, name="run_one_active_per_conversation"
            ),
        ]
        indexes = [
            # sweeper, free slots of workers: the oldest claimable run
            models.Index(fields=["ready_at"], name="run_claimable", condition=Q(IS_OPEN, owner=None)),
            # reaper: runs with an owner
            models.Index(fields=["owner"], name="run_owned", condition=Q(owner__isnull=False)),
            # sweeper: ended runs that the conversation has not stored
            models.Index(fields=["ended_at"], name="run_untold", condition=Q(end_stored=False, ended_at__isnull=False)),
            # admin: runs that did not complete
            models.Index(fields=["status", "id"], name="run_trouble", condition=ENDED_BADLY),
            # new message: length of the queue; pages: open runs of a session
            models.Index(fields=["conversation_id"], name="run_open_in_conversation", condition=IS_OPEN),
            # sweeper: child runs of whose deadline another part has passed
            models.Index(fields=["alarm_at"], name="run_alarm", condition=Q(alarm_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"run {self.id} {self.status}"

    @property
    def child_spec(self) -> ChildSpec:
        """The options of a child run."""
        return ChildSpec.from_dict(self.spec or {})

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of the answer: that of the message, or of the agent."""
        own: dict[str, Any] | None = self.options.get("output_schema")
        return self.agent.output_schema if own is None else own


class Step(models.Model):
    """A recorded model call of a run. Written once, with the fence of its claim.

    Calls for the answer are numbered from 0. Those that prepare them count down from -1: compactions, whose text is the
    summary or empty, and transcriptions of voice notes.
    """

    MODEL, COMPACT, TRANSCRIBE = "model", "compact", "transcribe"
    KINDS = [(MODEL, "model call"), (COMPACT, "compaction"), (TRANSCRIBE, "transcription")]

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="steps")
    index = models.IntegerField()
    kind = models.CharField(db_column="call_kind", max_length=10, choices=KINDS, default=MODEL, db_default=MODEL)
    fence = models.IntegerField()
    turns_seen = models.IntegerField(
        db_column="words_seen", default=1, help_text="Number of the run's user turns that the model received."
    )
    text = models.TextField(blank=True)
    reasoning = models.TextField(blank=True)
    reasoning_ms = models.IntegerField(
        default=0, db_default=0, help_text="From the first piece of the reasoning to the first of the text."
    )
    tool_calls = models.JSONField(default=list, help_text="[{id, name, arguments}] as sent by the model.")
    dialect_state = models.JSONField(
        null=True, editable=False, help_text="Data that the model server needs back, such as encrypted reasoning."
    )
    finish_reason = models.CharField(max_length=40)
    provider = models.CharField(max_length=60, blank=True, default="", db_default="")
    model = models.CharField(max_length=200, blank=True)
    input_tokens = models.IntegerField(default=0)
    cached_input_tokens = models.IntegerField(default=0, db_default=0)
    output_tokens = models.IntegerField(default=0)
    reasoning_tokens = models.IntegerField(default=0, db_default=0)
    cost_nanos = models.BigIntegerField(
        null=True, help_text="At the prices of its time, in billionths of the currency's unit. Null: without a price."
    )
    estimated_tokens = models.IntegerField(
        default=0, db_default=0, help_text="Our estimate of the input tokens: the server's count corrects later ones."
    )
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()

    class Meta:
        db_table = "komand_step"
        ordering = ["run", "index"]
        constraints = [models.UniqueConstraint(fields=["run", "index"], name="step_once_per_index")]

    def __str__(self) -> str:
        return f"step {self.index} of {self.run_id}"
