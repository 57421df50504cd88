"""Links between users and the senders of channel accounts that they are."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from audit_app.kernel.ids import new_id
from sessions_app.models.channels import ChannelAccount

IS_LINKED = Q(linked_at__isnull=False)


class SenderLink(models.Model):
    """A sender of a channel account who is linked with a user, or the one-time code of a link that is not made yet.

    Its states: a code waits for its sender (no account); a sender has sent it, and the user has to repeat the number
    that the chat shows (no `linked_at`); linked.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    code_digest = models.CharField(max_length=64, blank=True, editable=False)
    number_digest = models.CharField(max_length=64, blank=True, editable=False)
    wrong_numbers = models.PositiveSmallIntegerField(default=0, help_text="Number of failed attempts.")
    expires_at = models.DateTimeField(
        null=True, help_text="Expiry of the code and the number. Empty once it is linked."
    )
    account = models.ForeignKey(ChannelAccount, null=True, on_delete=models.CASCADE, related_name="+", db_index=False)
    sender_id = models.CharField(max_length=200, blank=True)
    sender_name = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    linked_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "komand_sender_link"
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["account", "sender_id"], condition=IS_LINKED, name="link_once_per_sender")
        ]
        indexes = [
            # every run of a channel's sender: the user behind it
            models.Index(fields=["sender_id"], name="link_sender", condition=IS_LINKED),
            # codes that are sent, and the retention of those that were not used
            models.Index(fields=["code_digest"], name="link_code", condition=~Q(code_digest="")),
            models.Index(fields=["expires_at"], name="link_unused", condition=Q(linked_at=None)),
        ]

    def __str__(self) -> str:
        return self.sender_name or self.sender_id or "open code"
