"""Push notification configurations of A2A tasks."""

from django.db import models
from django.db.models import Q

from agents_app.models import Run
from audit_app.kernel.ids import new_id
from sessions_app.models.sessions import Session


class TaskPush(models.Model):
    """An address that is notified of the states of a task.

    target_sealed: JSON of `url`, `token`, `scheme` and `credentials`.
    credential: of the caller who configured it, with which it ends; see `Principal.credential`.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="+", db_index=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=200, help_text="Id of the configuration, unique within the task.")
    target_sealed = models.TextField(editable=False)
    credential = models.CharField(max_length=100, blank=True)
    origin = models.CharField(max_length=300, help_text="Origin of this installation, as the client has reached it.")
    is_open = models.BooleanField(default=True, help_text="The end of the task is not notified yet.")
    seen_seq = models.BigIntegerField(default=-1, help_text="Event of the session up to which the task was looked at.")
    seen_status = models.CharField(max_length=100, blank=True, help_text="Last notified state and request to a person.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "komand_task_push"
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["run", "name"], name="task_push_name")]
        indexes = [models.Index(fields=["id"], name="task_push_open", condition=Q(is_open=True))]  # sweeper

    def __str__(self) -> str:
        return f"push notifications {self.name} of the task {self.run_id}"
