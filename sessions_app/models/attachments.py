"""Files that came with messages: where they are, where they were stored, and what they say."""

from django.db import models
from django.db.models import Q

from audit_app.kernel.ids import new_id
from sessions_app.models.channels import ChannelAccount
from sessions_app.models.sessions import Turn


class Attachment(models.Model):
    """One file of a user's turn. `owner` is the process that fetches it; until all are fetched, or their time is over,
    the turn's run does not start."""

    STATUSES = [(status, status) for status in ("waiting", "stored", "skipped", "failed")]

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    turn = models.ForeignKey(Turn, on_delete=models.CASCADE, related_name="+")
    account = models.ForeignKey(ChannelAccount, on_delete=models.CASCADE, related_name="+", db_index=False)
    kind = models.CharField(max_length=12, help_text="image | audio | voice | video | file | sticker")
    filename = models.CharField(max_length=200, blank=True)
    mime_type = models.CharField(max_length=100, blank=True, help_text="As the sender told; once stored, as it is.")
    size_bytes = models.BigIntegerField(null=True, help_text="As the sender told; once stored, as it is.")
    source = models.TextField(help_text="The platform's id of it, or its URL.")
    status = models.CharField(max_length=10, choices=STATUSES, default="waiting")
    owner = models.UUIDField(null=True)
    until = models.DateTimeField(help_text="When it is too late: the run starts without it.")
    album_until = models.DateTimeField(null=True, help_text="Until then more of the same album may come.")
    path = models.CharField(max_length=100, blank=True, help_text="Below the data folder's `attachments`.")
    text = models.TextField(blank=True, help_text="What a text file says, as far as models are shown it.")
    characters = models.IntegerField(null=True, help_text="How long a text file is in all.")
    error = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        db_table = "komand_attachment"
        ordering = ["id"]
        indexes = [
            # fetcher and reaper: what is still to be fetched
            models.Index(fields=["id"], name="attachment_waiting", condition=Q(status="waiting")),
            # retention: files whose time is over
            models.Index(fields=["created_at"], name="attachment_stored", condition=Q(status="stored") & ~Q(path="")),
        ]

    def __str__(self) -> str:
        return self.filename or self.kind
