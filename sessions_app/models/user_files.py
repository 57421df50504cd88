"""Files that users keep for several messages."""

from django.conf import settings
from django.db import models
from django.utils import timezone

from audit_app.kernel.ids import new_id


class UserFile(models.Model):
    """A file that a user has uploaded once, to be named in several messages. Each message gets a copy.

    It is not found from `expires_at` on; retention deletes it then.
    """

    PURPOSES = [(purpose, purpose) for purpose in ("user_data", "assistants", "vision")]

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    purpose = models.CharField(max_length=20, choices=PURPOSES)
    filename = models.CharField(max_length=200)
    mime_type = models.CharField(max_length=100, help_text="Read from its bytes.")
    size_bytes = models.BigIntegerField()
    path = models.CharField(max_length=100, help_text="Path in the folder `attachments` of the data folder.")
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "komand_user_file"
        ordering = ["id"]
        indexes = [
            # lists and limits of a user
            models.Index(fields=["owner", "id"], name="user_file_of_owner"),
            # retention
            models.Index(fields=["expires_at"], name="user_file_expired"),
        ]

    def __str__(self) -> str:
        return self.filename
