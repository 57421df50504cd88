"""Runs and their recorded steps."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.db import models
from django.db.models import Q

from agents_app.models.agents import Agent
from agents_app.types import ModelResponse, RunStatus, WaitingOn
from agents_app.types.child_runs import ChildSpec, RunKind
from audit_app.kernel.ids import new_id

ACTIVE = [RunStatus.RUNNING.value, RunStatus.WAITING.value]
OPEN = [RunStatus.QUEUED.value, *ACTIVE]
# Conditions of partial indexes and of their queries. SQLite matches a bound `status = ?` with an index, but not `IN`.
IS_ACTIVE = Q(status=RunStatus.RUNNING.value) | Q(status=RunStatus.WAITING.value)
IS_OPEN = Q(status=RunStatus.QUEUED.value) | IS_ACTIVE
IS_ROOT = Q(parent__isnull=True)
ON_PERSON = (WaitingOn.APPROVAL.value, WaitingOn.INPUT.value)
# Root runs that adopt child runs: those with a model that reads their results.
CAN_ADOPT = Q(IS_ROOT, options__network__isnull=True, options__compacts_only__isnull=True)
# A child run whose last result its listener has not got.
IS_UNCOLLECTED = Q(parent__isnull=False, end_stored=False) & (
    Q(ended_at__isnull=False) | Q(status=RunStatus.WAITING.value, waiting_on=WaitingOn.PARENT.value)
)
# A child run for whose result its parent waits. One that a person has paused works on when a person resumes it.
IS_WORKING = Q(IS_OPEN) & (~Q(waiting_on=WaitingOn.PARENT.value) | (~Q(paused_by="") & Q(end_stored=True)))


def children_of(run_id: Any) -> Q:
    """Return the condition of the child runs whose listener is a run: those that it launched and has adopted.

    Once another run has adopted one, its parent is no longer the listener. run_id: or a reference to a column.
    """
    return Q(listener_id=run_id) | Q(listener__isnull=True, parent_id=run_id)


ENDED_BADLY = (
    Q(status=RunStatus.FAILED.value) | Q(status=RunStatus.TIMED_OUT.value) | Q(status=RunStatus.CANCELLED.value)
)


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
    ordinal = models.IntegerField(help_text="Position in the queue of the conversation.")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="runs")
    status = models.CharField(max_length=12, choices=STATUSES, default=RunStatus.QUEUED.value)
    waiting_on = models.CharField(max_length=12, choices=WAITS, blank=True)
    owner = models.UUIDField(null=True, help_text="Process that executes it.")
    fence = models.IntegerField(default=0)
    crashes = models.IntegerField(default=0)
    crash_share = models.FloatField(
        default=0.0, db_default=0.0, help_text="Part of these crashes that counts against the limit."
    )
    tries = models.IntegerField(default=0, help_text="Failed tries of the current model call.")
    ready_at = models.DateTimeField(
        null=True, help_text="Time from which it may be claimed. Null: it has an owner, or waits."
    )
    fallback = models.JSONField(
        null=True, help_text="Entry of the agent's fallback chain that it uses (run_cost.Fallback)."
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
        default=0, db_default=0, help_text="Cost of calls that have a price, in billionths of the unit of the currency."
    )
    priced_calls = models.IntegerField(default=0, db_default=0)
    session_policy = models.JSONField(
        default=dict,
        blank=True,
        help_text="Restrictions of the session when the message was received: {readonly, deniedTools}.",
    )
    options = models.JSONField(default=dict, blank=True, help_text="Options of the message (RunOptions).")
    agent_version = models.PositiveIntegerField(
        null=True, help_text="Version of the agent at the last claim. 0: the draft. Null: none was stored."
    )
    actor = models.CharField(max_length=200)
    request_id = models.CharField(max_length=128, blank=True)
    end_stored = models.BooleanField(
        db_column="conversation_told",
        default=False,
        help_text="The conversation has stored the end; for a child run, the parent has stored the result.",
    )
    parent = models.ForeignKey("self", on_delete=models.CASCADE, null=True, related_name="children")
    root = models.ForeignKey(
        "self", on_delete=models.CASCADE, null=True, related_name="+", help_text="Root of a child run."
    )
    listener = models.ForeignKey(
        "self",
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
        help_text="Run of the conversation that has adopted the child run. Null: its parent gets its results.",
    )
    is_on_its_own = models.BooleanField(
        default=False, db_default=False, help_text="Its listener has answered, and no run gets its results now."
    )
    starts_run = models.BooleanField(
        default=False, db_default=False, help_text="The next result of the child run on its own starts a run."
    )
    progress_at = models.DateTimeField(null=True, help_text="Time from which its progress starts a run. Null: none.")
    kind = models.CharField(max_length=12, choices=KINDS, default=RunKind.MESSAGE, db_default=RunKind.MESSAGE.value)
    workstream = models.CharField(max_length=120, blank=True, default="", db_default="", help_text="Empty: main.")
    depth = models.PositiveSmallIntegerField(default=0, db_default=0)
    spec = models.JSONField(null=True, help_text="Options of a child run (ChildSpec).")
    child_count = models.PositiveIntegerField(default=0, db_default=0)
    deadline_at = models.DateTimeField(
        null=True, help_text="Deadline of a child run. Null while it waits for its parent."
    )
    seconds_left = models.FloatField(
        null=True, help_text="Seconds until the deadline, while the child waits for its parent."
    )
    held_seconds = models.FloatField(
        default=0.0,
        db_default=0.0,
        help_text="Seconds in which it, or a run below it, waited for a person, as far as the deadline was moved.",
    )
    alarm_at = models.DateTimeField(null=True, help_text="Time at which the next part of the deadline has passed.")
    is_paused = models.BooleanField(default=False, db_default=False)
    paused_by = models.CharField(
        max_length=200, blank=True, default="", db_default="", help_text="Person who paused it; empty: its parent."
    )
    terminated_at = models.DateTimeField(null=True, help_text="Time at which the parent asked it to end.")
    budget_tokens = models.BigIntegerField(
        null=True, help_text="Token budget of the run and its children. Null: no limit."
    )
    reserved_tokens = models.BigIntegerField(
        default=0, db_default=0, help_text="Tokens that its model call may use of the budgets above it, or waits for."
    )
    budget_nanos = models.BigIntegerField(
        null=True, help_text="Cost budget of the run and its children. Null: no limit."
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
                fields=["conversation_id"], condition=IS_ACTIVE & IS_ROOT, name="run_one_active_per_conversation"
            ),
        ]
        indexes = [
            # sweeper, free slots of workers: the oldest claimable run
            models.Index(fields=["ready_at"], name="run_claimable", condition=Q(IS_OPEN, owner=None)),
            # free places of users: the waiting runs of each
            models.Index(fields=["actor", "ready_at"], name="run_turn", condition=Q(IS_OPEN, owner=None)),
            # claims: number of running runs of a user
            models.Index(fields=["actor"], name="run_running", condition=Q(owner__isnull=False)),
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
            # claims, sweeper: child runs on their own
            models.Index(fields=["conversation_id"], name="run_on_its_own", condition=Q(is_on_its_own=True)),
        ]

    def __str__(self) -> str:
        return f"run {self.id} {self.status}"

    @property
    def names_version(self) -> bool:
        """Return whether its message names a version of the agent; see `agent_versions.use_version`."""
        return "agent_version" in self.options

    @property
    def is_in_tree(self) -> bool:
        """Return whether the run has a parent or children."""
        return bool(self.parent_id or self.child_count)

    @property
    def waits_for_person(self) -> bool:
        """Return whether a call of its own waits for a decision or an answer."""
        return self.status == RunStatus.WAITING.value and self.waiting_on in ON_PERSON

    @property
    def is_working(self) -> bool:
        """Return whether its parent waits for its result: IS_WORKING of a loaded row."""
        is_held = bool(self.paused_by) and self.end_stored
        return self.ended_at is None and (self.waiting_on != WaitingOn.PARENT.value or is_held)

    @property
    def child_spec(self) -> ChildSpec:
        """The options of a child run."""
        return ChildSpec.from_dict(self.spec or {})

    @property
    def can_adopt(self) -> bool:
        """Return whether it adopts child runs that are on their own: `CAN_ADOPT` of a row."""
        return self.parent_id is None and not (self.options.get("network") or self.options.get("compacts_only"))

    @property
    def outlives(self) -> bool:
        """Return whether a child run goes on when its listener, a root run, answers."""
        spec = self.child_spec
        return self.depth == 1 and bool(self.listener_id or spec.is_background or spec.is_interactive)

    @property
    def may_have_budget(self) -> bool:
        """Return whether the run, or one above it, may have a token budget."""
        return self.root_id is not None and self.child_spec.may_have_budget

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of the answer: that of the message, or of the agent."""
        if self.kind == RunKind.REPORT.value:
            return None
        own: dict[str, Any] | None = self.options.get("output_schema")
        return self.agent.output_schema if own is None else own


def lock_open_below(run: Run) -> list[Run]:
    """Lock the open runs below a locked run and the child runs that it has adopted. Return them, upper levels first."""
    adopted = Run.objects.filter(IS_OPEN, listener_id=run.pk).values("root_id")
    trees = Q(root_id=run.root_id or run.pk) | Q(root_id__in=adopted)
    rows = Run.objects.select_for_update(no_key=True).filter(trees, IS_OPEN, depth__gt=run.depth)
    known, below = {run.pk}, []
    for row in rows.only("parent_id", "listener_id", "waiting_on").order_by("depth", "id"):
        if (row.listener_id or row.parent_id) in known:
            known.add(row.pk)
            below.append(row)
    return below


def held_above(runs: Iterable[Run]) -> set[UUID]:
    """Return the ids of the runs whose deadline stands still: they, or runs below them, wait for a person.

    At most one query, for those of the given runs that have child runs.
    """
    roots = {run.root_id or run.pk for run in runs if run.child_count and not run.ended_at}
    rows = Run.objects.filter(IS_OPEN, root_id__in=roots) if roots else Run.objects.none()
    known = {run.pk: run for run in (*runs, *rows.only("parent_id", "status", "waiting_on"))}
    held = set[UUID]()
    for run in known.values():
        at: Run | None = run if run.waits_for_person else None
        while at is not None and at.pk not in held:
            held.add(at.pk)
            at = known.get(at.parent_id) if at.parent_id else None
    return held


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
        default=0, db_default=0, help_text="Milliseconds from the start of the reasoning to the start of the text."
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
        null=True,
        help_text="Cost at the prices of that time, in billionths of the unit of the currency. Null: no price.",
    )
    estimated_tokens = models.IntegerField(
        default=0, db_default=0, help_text="Estimated input tokens; the server's count corrects later estimates."
    )
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()

    class Meta:
        db_table = "komand_step"
        ordering = ["run", "index"]
        constraints = [models.UniqueConstraint(fields=["run", "index"], name="step_once_per_index")]

    def __str__(self) -> str:
        return f"step {self.index} of {self.run_id}"

    @classmethod
    def last_text_of(cls, run_id: UUID) -> str:
        """Return the last text that a run has written."""
        steps = cls.objects.filter(run_id=run_id, kind=cls.MODEL).exclude(text="")
        return steps.order_by("-index").values_list("text", flat=True).first() or ""

    @classmethod
    def of_response(cls, response: ModelResponse, **fields: Any) -> "Step":
        """Return the unsaved step of a response. fields: further columns."""
        usage = response.usage
        return cls(
            text=response.text,
            reasoning=response.reasoning,
            reasoning_ms=round(response.reasoning_seconds * 1000),
            tool_calls=[asdict(tool_call) for tool_call in response.tool_calls],
            dialect_state=response.dialect_state,
            finish_reason=response.finish_reason,
            input_tokens=usage.input_tokens,
            cached_input_tokens=usage.cached_input_tokens,
            output_tokens=usage.output_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            **fields,
        )
