"""Agents, model providers, runs and their steps."""

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q

from agents_app.types import RunStatus, WaitingOn
from audit_app.kernel.ids import new_id

ACTIVE = [RunStatus.RUNNING.value, RunStatus.WAITING.value]
OPEN = [RunStatus.QUEUED.value, *ACTIVE]
# Conditions of partial indexes, and of the queries that use them: SQLite recognises a bound `status = ?`, not `IN`.
IS_ACTIVE = Q(status=RunStatus.RUNNING.value) | Q(status=RunStatus.WAITING.value)
IS_OPEN = Q(status=RunStatus.QUEUED.value) | IS_ACTIVE
ENDED_BADLY = (
    Q(status=RunStatus.FAILED.value) | Q(status=RunStatus.TIMED_OUT.value) | Q(status=RunStatus.CANCELLED.value)
)


class ModelProvider(models.Model):
    """An endpoint that serves models. The key is sealed by the vault and never shown again."""

    name = models.SlugField(max_length=60, unique=True)
    kind = models.CharField(max_length=40, help_text="A registered provider kind: openai, demo, …")
    base_url = models.CharField(max_length=500, blank=True, help_text="Empty: the kind's own default.")
    api_key_sealed = models.TextField(blank=True, editable=False)
    default_model = models.CharField(max_length=200, blank=True)
    input_price = models.FloatField(
        default=1.0,
        validators=[MinValueValidator(0)],
        help_text="Of 1,000 tokens read, in any unit you like. With 1 and 1, costs are thousands of tokens.",
    )
    output_price = models.FloatField(
        default=1.0, validators=[MinValueValidator(0)], help_text="Of 1,000 tokens written."
    )
    is_enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "komand_model_provider"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Agent(models.Model):
    """An agent: a prompt, a model and what it may do. Deleting only retires it: runs point to it."""

    AUTONOMY = [("readonly", "read only"), ("supervised", "supervised"), ("full", "full")]
    SCOPES = [("none", "none"), ("inherit", "inherit"), ("list", "list")]
    BUSY = [("queue", "queue"), ("reject", "reject"), ("interrupt", "interrupt"), ("steer", "steer")]

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    agent_id = models.SlugField(max_length=120, unique=True, help_text="Public id, as used in the API.")
    name = models.CharField(max_length=200)
    description = models.TextField(blank=True, null=True)  # noqa: DJ001 - the contract tells null from empty
    system_prompt = models.TextField(default="You are a helpful enterprise AI assistant.")
    provider = models.ForeignKey(ModelProvider, on_delete=models.PROTECT, related_name="agents")
    model_id = models.CharField(max_length=200, blank=True, help_text="Empty: the provider's default model.")
    max_context_tokens = models.PositiveIntegerField(default=100_000)
    enabled_skill_ids = models.JSONField(default=list, blank=True)
    allowed_channels = models.JSONField(default=list, blank=True, help_text="Empty: all channels.")
    enabled_tools = models.JSONField(null=True, blank=True, help_text="Tool names; empty: all registered tools.")
    mcp_servers_mode = models.CharField(
        max_length=8,
        choices=SCOPES,
        default="inherit",
        help_text="Whose tools it has: as the installation says, or own.",
    )
    mcp_servers = models.JSONField(default=list, blank=True, help_text="Names of MCP servers, when they are a list.")
    autonomy = models.CharField(max_length=12, choices=AUTONOMY, default="supervised")
    allowed_tools = models.JSONField(default=list, blank=True, help_text="Patterns of calls; empty: no restriction.")
    denied_tools = models.JSONField(default=list, blank=True, help_text="Patterns of calls that are never made.")
    always_ask = models.JSONField(default=list, blank=True, help_text="Patterns of calls that a person must approve.")
    auto_approve = models.JSONField(default=list, blank=True, help_text="Patterns of calls that need no approval.")
    allowed_hosts = models.JSONField(default=list, blank=True, help_text="Hosts that calls may reach; empty: all.")
    denied_hosts = models.JSONField(default=list, blank=True, help_text="Hosts that calls never reach.")
    budgets = models.JSONField(default=dict, blank=True, help_text='{"actionsPerHour": n, "costPerHour": n}')
    busy_policy = models.CharField(
        max_length=12, choices=BUSY, default="queue", help_text="What a message to a busy session does."
    )
    queue_limit = models.PositiveIntegerField(default=20, help_text="Messages that may wait in a busy session.")
    max_tool_rounds = models.PositiveIntegerField(default=10)
    max_active_seconds = models.PositiveIntegerField(default=120)
    max_call_seconds = models.PositiveIntegerField(default=300)
    max_idle_seconds = models.PositiveIntegerField(default=60, help_text="Longest silence of a model's stream.")
    max_tries = models.PositiveIntegerField(default=2)
    retry_first_seconds = models.FloatField(default=2.0)
    retry_max_seconds = models.FloatField(default=30.0)
    owner_id = models.BigIntegerField(null=True, blank=True, help_text="User who made it.")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    retired_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "komand_agent"
        ordering = ["agent_id"]

    def __str__(self) -> str:
        return self.name


class Run(models.Model):
    """One execution of the agent loop. `owner` is the process that works on it, `fence` the number of its claim.

    Claimable: open, no owner, and `ready_at` reached or all its tool executions ended. Only runs/transitions.py changes
    `status`, `owner` and `fence` of a stored run.
    """

    STATUSES = [(status.value, status.value) for status in RunStatus]
    WAITS = [(wait.value, wait.value) for wait in WaitingOn]

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    conversation_id = models.UUIDField()
    session_key = models.CharField(max_length=512, blank=True, help_text="Public session id, for the audit log.")
    ordinal = models.IntegerField(help_text="Place in the conversation's queue.")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="runs")
    status = models.CharField(max_length=12, choices=STATUSES, default=RunStatus.QUEUED.value)
    waiting_on = models.CharField(max_length=12, choices=WAITS, blank=True)
    owner = models.UUIDField(null=True, help_text="The process that holds it (kernel/liveness).")
    fence = models.IntegerField(default=0)
    crashes = models.IntegerField(default=0)
    tries = models.IntegerField(default=0, help_text="Failed tries of the present model call.")
    ready_at = models.DateTimeField(null=True, help_text="When it may be claimed; null while parked.")
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    active_seconds = models.FloatField(default=0.0)
    user_turn_count = models.IntegerField(
        db_column="words", default=1, help_text="User turns it answers: 1, more when steered, 0 for a retry."
    )
    answer = models.TextField(blank=True)
    error_code = models.CharField(max_length=60, blank=True)
    error_message = models.TextField(blank=True)
    input_tokens = models.IntegerField(default=0)
    output_tokens = models.IntegerField(default=0)
    session_policy = models.JSONField(
        default=dict, blank=True, help_text="What its session forbids: {readonly, deniedTools}, as it was at accept."
    )
    options = models.JSONField(default=dict, blank=True, help_text="What its message asks of it (types.RunOptions).")
    actor = models.CharField(max_length=200)
    request_id = models.CharField(max_length=128, blank=True)
    end_stored = models.BooleanField(
        db_column="conversation_told", default=False, help_text="The conversation has stored this run's end."
    )
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "komand_run"
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["conversation_id", "ordinal"], name="run_conversation_ordinal"),
            models.UniqueConstraint(
                fields=["conversation_id"], condition=IS_ACTIVE, name="run_one_active_per_conversation"
            ),
        ]
        indexes = [
            # sweeper and freed slots: the oldest claimable run
            models.Index(fields=["ready_at"], name="run_claimable", condition=Q(IS_OPEN, owner=None)),
            # reaper: whose runs are being executed
            models.Index(fields=["owner"], name="run_owned", condition=Q(owner__isnull=False)),
            # sweeper: ended runs that the conversation has not stored
            models.Index(fields=["ended_at"], name="run_untold", condition=Q(end_stored=False, ended_at__isnull=False)),
            # admin: runs that did not end well, found among the many that did
            models.Index(fields=["status", "id"], name="run_trouble", condition=ENDED_BADLY),
            # accept: how many wait in this session; page: what is open in it
            models.Index(fields=["conversation_id"], name="run_open_in_conversation", condition=IS_OPEN),
        ]

    def __str__(self) -> str:
        return f"run {self.id} {self.status}"


class Spending(models.Model):
    """What an agent's model calls cost within one minute. Written for agents that have a budget of cost."""

    id = models.BigAutoField(primary_key=True)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+", db_index=False)
    minute = models.DateTimeField()
    cost = models.FloatField()

    class Meta:
        db_table = "komand_spending"
        constraints = [models.UniqueConstraint(fields=["agent", "minute"], name="spending_once_per_minute")]

    def __str__(self) -> str:
        return f"{self.cost} at {self.minute:%H:%M}"


class Step(models.Model):
    """One recorded model call of a run. Written once, whole, with the fence that made it."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="steps")
    index = models.IntegerField()
    fence = models.IntegerField()
    turns_seen = models.IntegerField(
        db_column="words_seen", default=1, help_text="How many of the run's user turns the model was shown."
    )
    text = models.TextField(blank=True)
    reasoning = models.TextField(blank=True)
    tool_calls = models.JSONField(default=list, help_text="[{id, name, arguments}] as the model sent them.")
    finish_reason = models.CharField(max_length=40)
    model = models.CharField(max_length=200, blank=True)
    input_tokens = models.IntegerField(default=0)
    output_tokens = models.IntegerField(default=0)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()

    class Meta:
        db_table = "komand_step"
        ordering = ["run", "index"]
        constraints = [models.UniqueConstraint(fields=["run", "index"], name="step_once_per_index")]

    def __str__(self) -> str:
        return f"step {self.index} of {self.run_id}"
