"""Agents, model providers, runs and their steps."""

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q

from agents_app.types import RunStatus, WaitingOn
from audit_app.kernel.ids import new_id

ACTIVE = [RunStatus.RUNNING.value, RunStatus.WAITING.value]
OPEN = [RunStatus.QUEUED.value, *ACTIVE]
# Conditions of partial indexes and of their queries. SQLite matches a bound `status = ?` with an index, but not `IN`.
IS_ACTIVE = Q(status=RunStatus.RUNNING.value) | Q(status=RunStatus.WAITING.value)
IS_OPEN = Q(status=RunStatus.QUEUED.value) | IS_ACTIVE
ENDED_BADLY = (
    Q(status=RunStatus.FAILED.value) | Q(status=RunStatus.TIMED_OUT.value) | Q(status=RunStatus.CANCELLED.value)
)


class ModelProvider(models.Model):
    """An endpoint that serves models. Its API key is encrypted by the vault and never shown again."""

    name = models.SlugField(max_length=60, unique=True)
    kind = models.CharField(max_length=40, help_text="Registered kind of provider, such as openai or demo.")
    base_url = models.CharField(max_length=500, blank=True, help_text="Empty: default of the kind.")
    api_key_sealed = models.TextField(blank=True, editable=False)
    default_model = models.CharField(max_length=200, blank=True)
    input_price = models.FloatField(
        default=1.0,
        validators=[MinValueValidator(0)],
        help_text="Price per 1,000 input tokens, in any unit. Leave both prices at 1 to budget in thousands of tokens.",
    )
    output_price = models.FloatField(
        default=1.0, validators=[MinValueValidator(0)], help_text="Price per 1,000 output tokens."
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
    """An agent: a prompt, a model and its permissions. It is retired, never deleted, because runs refer to it."""

    AUTONOMY = [("readonly", "read only"), ("supervised", "supervised"), ("full", "full")]
    SCOPES = [("none", "none"), ("inherit", "inherit"), ("list", "list")]
    BUSY = [("queue", "queue"), ("reject", "reject"), ("interrupt", "interrupt"), ("steer", "steer")]

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    agent_id = models.SlugField(max_length=120, unique=True, help_text="Public id, used in the API.")
    name = models.CharField(max_length=200)
    description = models.TextField(blank=True, null=True)  # noqa: DJ001 - null and empty differ in the API
    system_prompt = models.TextField(default="You are a helpful enterprise AI assistant.")
    provider = models.ForeignKey(ModelProvider, on_delete=models.PROTECT, related_name="agents")
    model_id = models.CharField(max_length=200, blank=True, help_text="Empty: default model of the provider.")
    max_context_tokens = models.PositiveIntegerField(default=100_000)
    enabled_skill_ids = models.JSONField(default=list, blank=True)
    allowed_channels = models.JSONField(default=list, blank=True, help_text="Empty: all channels.")
    enabled_tools = models.JSONField(null=True, blank=True, help_text="Names of tools. Empty: all registered tools.")
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
    `status`, `owner` and `fence` of a stored run.
    """

    STATUSES = [(status.value, status.value) for status in RunStatus]
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
    session_policy = models.JSONField(
        default=dict,
        blank=True,
        help_text="Restrictions of its session when the message was received: {readonly, deniedTools}.",
    )
    options = models.JSONField(default=dict, blank=True, help_text="Options of its message (types.RunOptions).")
    actor = models.CharField(max_length=200)
    request_id = models.CharField(max_length=128, blank=True)
    end_stored = models.BooleanField(
        db_column="conversation_told",
        default=False,
        help_text="Whether the conversation has stored the end of this run.",
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
        ]

    def __str__(self) -> str:
        return f"run {self.id} {self.status}"


class Spending(models.Model):
    """The cost of an agent's model calls within one minute. Stored only for agents with a cost budget."""

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
    """A recorded model call of a run. Written once, with the fence of its claim."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="steps")
    index = models.IntegerField()
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
