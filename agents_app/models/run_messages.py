"""Messages to runs that are no turns of their session."""

from django.db import models

from agents_app.types.child_runs import MessageKind
from audit_app.kernel.ids import new_id


class RunMessage(models.Model):
    """A message to a run that is no turn of its session: the task of a child run, or a report of one.

    Its position counts among the run's user turns: `Run.user_turn_count` counts both.
    """

    KINDS = [(kind.value, kind.value) for kind in MessageKind]

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey("agents_app.Run", on_delete=models.CASCADE, related_name="messages")
    position = models.IntegerField()
    kind = models.CharField(max_length=12, choices=KINDS)
    about = models.ForeignKey(
        "agents_app.Run",
        on_delete=models.CASCADE,
        null=True,
        related_name="+",
        help_text="Child run that the message reports about.",
    )
    text = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "komand_run_message"
        ordering = ["run", "position"]
        constraints = [models.UniqueConstraint(fields=["run", "position"], name="run_message_position")]

    def __str__(self) -> str:
        return f"message {self.position} to run {self.run_id}"
