"""Feedback, and further content of messages that clients of the Threads API write."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from audit_app.kernel.ids import new_id
from sessions_app.models.sessions import Session, Turn


class Feedback(models.Model):
    """A rating of a session or of one of its messages by a user, or by a sender on a channel. At most one of each."""

    TARGETS = [("THREAD", "session"), ("MESSAGE", "message")]
    RATINGS = [("UP", "up"), ("DOWN", "down")]

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="+")
    sender = models.CharField(
        max_length=300,
        blank=True,
        default="",
        db_default="",
        help_text="Sender on a channel who reacted to the message, as account and id. Empty for a user.",
    )
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="+")
    target_type = models.CharField(max_length=16, choices=TARGETS)
    target_id = models.UUIDField(
        help_text="Id of the session, of the run of an answer, or of the turn of another message."
    )
    rating = models.CharField(max_length=4, choices=RATINGS)
    reason = models.CharField(max_length=20, blank=True)
    comment = models.TextField(blank=True)
    extra_metadata = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        db_table = "komand_feedback"
        ordering = ["-created_at"]
        verbose_name_plural = "feedback"
        constraints = [
            models.UniqueConstraint(fields=["user", "target_type", "target_id"], name="feedback_one_per_target"),
            models.UniqueConstraint(
                fields=["sender", "target_type", "target_id"], condition=~Q(sender=""), name="feedback_one_per_sender"
            ),
        ]
        indexes = [models.Index(fields=["created_at"], name="feedback_recent")]  # lists, admin

    def __str__(self) -> str:
        return f"{self.rating} for {self.target_type.lower()} {self.target_id}"


class MessageExtras(models.Model):
    """Content beside the text of a message that a client wrote, as sent by the client."""

    turn = models.OneToOneField(Turn, primary_key=True, on_delete=models.CASCADE, related_name="+")
    content = models.JSONField(default=dict, help_text="Object with citations and references.")
    details = models.JSONField(null=True, help_text="Object with parts, steps, usage and other fields of the client.")

    class Meta:
        db_table = "komand_message_extras"
        verbose_name_plural = "message extras"

    def __str__(self) -> str:
        return f"extras of turn {self.turn_id}"
