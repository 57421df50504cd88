"""Tool executions: durable attempts at calls of models. Only `executions.transitions` writes their status."""

from django.db import models
from django.db.models import Q

from audit_app.kernel.ids import new_id
from tools_app.types import ExecutionStatus

# Condition of a partial index, and of the queries that use it: SQLite matches a bound `status = ?`, but not `IN`.
IS_OPEN = Q(status=ExecutionStatus.PENDING.value) | Q(status=ExecutionStatus.RUNNING.value)
ENDED_BADLY = (
    Q(status=ExecutionStatus.FAILED.value)
    | Q(status=ExecutionStatus.TIMED_OUT.value)
    | Q(status=ExecutionStatus.CANCELLED.value)
    | Q(status=ExecutionStatus.UNKNOWN.value)
)
# Of rows that an older release has written.
UNKNOWN_ORIGINS = "unknown"


class ToolExecution(models.Model):
    """One attempt at one tool call. Unique per run, step and call: a call is never planned twice."""

    STATUSES = [(status.value, status.value) for status in ExecutionStatus]

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run_id = models.UUIDField()
    parent_run_id = models.UUIDField(null=True, help_text="Only of a child run.")
    workstream = models.CharField(max_length=120, blank=True, default="", db_default="")
    session_id = models.UUIDField()
    session_key = models.CharField(max_length=512, blank=True, help_text="Public session id, for the audit log.")
    agent_id = models.CharField(max_length=120)
    actor = models.CharField(max_length=200)
    step = models.IntegerField()
    call_index = models.IntegerField()
    batch_id = models.UUIDField(null=True, help_text="Execution of the batch that contains this call.")
    call_id = models.CharField(max_length=200, help_text="Id of the call, given by the model.")
    tool = models.CharField(max_length=120)
    arguments = models.JSONField(default=dict)
    effect = models.CharField(max_length=8)
    risk = models.CharField(max_length=8)
    decision = models.CharField(max_length=200, help_text="Decision of the policy with its reason.")
    status = models.CharField(max_length=12, choices=STATUSES, default=ExecutionStatus.PENDING.value)
    output = models.TextField(null=True)  # noqa: DJ001 - null: no result
    error = models.TextField(null=True)  # noqa: DJ001 - null: no error
    owner = models.UUIDField(null=True, help_text="Process that executes it. Null: none.")
    attempts = models.IntegerField(default=0, help_text="Number of times it was started. Writes are fenced by it.")
    renudge_at = models.DateTimeField(
        db_column="ring_at", null=True, help_text="Time of the sweeper's next nudge, while pending."
    )
    timeout_seconds = models.IntegerField()
    runs_in_loop = models.BooleanField(
        default=False,
        help_text="Executed on the event loop of a runs worker, instead of in a process of a tools worker.",
    )
    request_id = models.CharField(max_length=128, blank=True)
    on_done = models.CharField(
        max_length=120, help_text="Celery task to nudge when the last call of the step has ended."
    )
    on_done_queue = models.CharField(max_length=60)
    suspicion = models.IntegerField(
        default=0, help_text="Score of the result by the injection guard. 0: not suspicious."
    )
    withheld = models.TextField(blank=True, help_text="Result that the injection guard withheld from the model.")
    receipt = models.CharField(
        max_length=120, blank=True, help_text="MAC over the call and the result. Empty while it is open."
    )
    charged_at = models.DateTimeField(null=True, help_text="Time at which it was charged to the agent's hourly budget.")
    origins = models.TextField(
        blank=True, default="", db_default=UNKNOWN_ORIGINS, help_text="Origins of the result, one a line."
    )
    pictures = models.JSONField(
        null=True, help_text="Pictures of the result that are files of the session, for models that see images."
    )
    client_until = models.DateTimeField(
        null=True, help_text="Time until which the client may send the output. Null: not a call of a client's tool."
    )
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    completed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "komand_tool_execution"
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["run_id", "step", "call_index"], name="execution_once_per_call")]
        indexes = [
            # the claim of a parked run: whether it has open executions
            models.Index(fields=["run_id"], name="execution_open", condition=IS_OPEN),
            # sweeper: pending executions whose nudge may be lost
            models.Index(fields=["renudge_at"], name="execution_ring", condition=Q(renudge_at__isnull=False)),
            # batches: their items
            models.Index(
                fields=["batch_id", "call_index"], name="execution_items", condition=Q(batch_id__isnull=False)
            ),
            # budgets: calls of an agent in the last hour
            models.Index(
                fields=["agent_id", "charged_at"], name="execution_charged", condition=Q(charged_at__isnull=False)
            ),
            # admin: the few calls that failed
            models.Index(fields=["status", "id"], name="execution_trouble", condition=ENDED_BADLY),
            # policy: what a session has read from outside
            models.Index(fields=["session_id"], name="execution_origins", condition=~Q(origins="")),
            # sweeper: running executions by process
            models.Index(fields=["owner"], name="execution_owned", condition=Q(owner__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.tool} {self.status}"
