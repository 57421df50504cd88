"""Links by which people without a login read a chat."""

from django.conf import settings
from django.db import models

from audit_app.kernel.ids import new_id
from sessions_app.models.sessions import Session


class ShareLink(models.Model):
    """A link to a chat as it was when the link was created.

    It ends at `expires_at`, when it is revoked, and with its session and its owner's right to share.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    token_digest = models.CharField(max_length=64, unique=True, help_text="SHA-256 of the token, which is not stored.")
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="+")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", help_text="The user who created it."
    )
    branch = models.IntegerField(help_text="The branch that was active; messages after `created_at` are not shown.")
    has_calls = models.BooleanField(help_text="Shows tool calls, with secrets masked.")
    has_files = models.BooleanField(help_text="Lets its readers download files of the chat.")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "komand_share_link"
        ordering = ["-id"]
        indexes = [
            # retention
            models.Index(fields=["expires_at"], name="share_link_expired")
        ]

    def __str__(self) -> str:
        return f"link to {self.session_id}"
