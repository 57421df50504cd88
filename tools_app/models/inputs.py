"""Questions to users. Only `executions.transitions` writes their status."""

from django.db import models
from django.db.models import Q

from audit_app.kernel.ids import new_id
from tools_app.models.executions import ToolExecution
from tools_app.types.questions import InputStatus


class InputRequest(models.Model):
    """A question of an agent to the user of a session. Answered once, by a message of the session.

    A call of a server's tool may ask several times; any other one asks once.
    """

    STATUSES = [(status.value, status.value) for status in InputStatus]

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    execution = models.ForeignKey(ToolExecution, on_delete=models.CASCADE, related_name="input_requests")
    run_id = models.UUIDField()
    session_id = models.UUIDField()
    question = models.TextField()
    options = models.JSONField(default=list, help_text="Labels of the answers to choose from.")
    questions = models.JSONField(
        default=list,
        db_default=models.Value([], models.JSONField()),
        help_text="Questions with their options. Empty: the single one of the fields above.",
    )
    allows_text = models.BooleanField(default=True)
    status = models.CharField(max_length=10, choices=STATUSES, default=InputStatus.PENDING.value)
    answered_by = models.CharField(max_length=200, blank=True)
    answer = models.TextField(
        blank=True, default="", db_default="", help_text="Answer to a question that was asked during a call."
    )
    state_sealed = models.TextField(
        blank=True, default="", db_default="", help_text="State with which the call is made again."
    )
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    answered_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "komand_input_request"
        ordering = ["-id"]
        indexes = [
            # sweeper: expired questions
            models.Index(fields=["expires_at"], name="input_pending", condition=Q(status="pending")),
            # receive_message: whether the session has an open question
            models.Index(fields=["session_id"], name="input_of_session", condition=Q(status="pending")),
        ]

    def __str__(self) -> str:
        return f"question of {self.execution_id} {self.status}"
