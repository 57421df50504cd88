"""Browsers that are notified by web push, and the notices for them."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from audit_app.kernel.ids import new_id
from sessions_app.models.identity import Login


class PushSubscription(models.Model):
    """A browser that a user wants to be notified on. It ends with the login in which it was made.

    endpoint_sealed, auth_sealed: the address of the browser's push service and the secret of the browser, encrypted by
        the vault: who has them can send.
    public_key: of the browser, `p256dh` of the Push API.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    login = models.ForeignKey(Login, on_delete=models.CASCADE, related_name="+")
    endpoint_digest = models.CharField(max_length=64, unique=True, editable=False)
    endpoint_sealed = models.TextField(editable=False)
    auth_sealed = models.TextField(editable=False)
    public_key = models.CharField(max_length=100, editable=False)
    device = models.CharField(max_length=200, blank=True, help_text="Browser and system, as the browser says.")
    wants_approvals = models.BooleanField(default=True)
    wants_questions = models.BooleanField(default=True)
    wants_answers = models.BooleanField(default=True)
    quiet_from = models.TimeField(null=True, blank=True, help_text="Start of the quiet hours, in `time_zone`.")
    quiet_until = models.TimeField(null=True, blank=True, help_text="End of the quiet hours, in `time_zone`.")
    time_zone = models.CharField(max_length=64, default="UTC", help_text="IANA name, such as Europe/Berlin.")
    created_at = models.DateTimeField(auto_now_add=True)
    last_sent_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "komand_push_subscription"
        ordering = ["id"]

    def __str__(self) -> str:
        return self.device or str(self.id)


class PushNotice(models.Model):
    """A notification for one browser about one request or answer. It is kept until then, so that it is sent once.

    subject_id: of the approval, the question or the run.
    payload: what the browser shows, see `push.notices`.
    due_at: time of the next attempt; empty once it is sent or given up.
    """

    KINDS = [(kind, kind) for kind in ("approval", "question", "answer", "test")]

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    subscription = models.ForeignKey(PushSubscription, on_delete=models.CASCADE, related_name="+")
    subject_id = models.UUIDField()
    kind = models.CharField(max_length=10, choices=KINDS)
    payload = models.JSONField()
    due_at = models.DateTimeField(null=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "komand_push_notice"
        constraints = [models.UniqueConstraint(fields=["subscription", "subject_id"], name="push_notice_once")]
        indexes = [
            # the sender
            models.Index(fields=["due_at"], name="push_notice_due", condition=Q(due_at__isnull=False)),
            # retention
            models.Index(fields=["expires_at"], name="push_notice_expired"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject_id}"
