"""Attachments of messages: their source, their stored file and their text."""

from django.db import models
from django.db.models import Q

from audit_app.kernel.ids import new_id
from sessions_app.models.channels import ChannelAccount
from sessions_app.models.sessions import Turn


class Attachment(models.Model):
    """A file of a user turn. `owner` is the process that downloads it.

    The run of the turn starts when all its files are downloaded or `until` has passed.
    """

    STATUSES = [(status, status) for status in ("waiting", "stored", "skipped", "failed")]

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    turn = models.ForeignKey(Turn, on_delete=models.CASCADE, related_name="+")
    account = models.ForeignKey(ChannelAccount, on_delete=models.CASCADE, related_name="+", db_index=False)
    kind = models.CharField(max_length=12, help_text="image | audio | voice | video | file | sticker")
    filename = models.CharField(max_length=200, blank=True)
    mime_type = models.CharField(max_length=100, blank=True, help_text="Declared by the sender; detected once stored.")
    size_bytes = models.BigIntegerField(null=True, help_text="Declared by the sender; measured once stored.")
    source = models.TextField(help_text="Id of the file on the platform, or its URL.")
    status = models.CharField(max_length=10, choices=STATUSES, default="waiting")
    owner = models.UUIDField(null=True)
    until = models.DateTimeField(help_text="Time limit of the download. After it, the run starts without the file.")
    album_until = models.DateTimeField(null=True, help_text="Time until which further files of the album may arrive.")
    path = models.CharField(
        max_length=100, blank=True, help_text="Path in the folder `attachments` of the data folder."
    )
    text = models.TextField(blank=True, help_text="Text of a text file, cut to the part that models receive.")
    characters = models.IntegerField(null=True, help_text="Length of the whole text file.")
    error = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        db_table = "komand_attachment"
        ordering = ["id"]
        indexes = [
            # fetcher and reaper: files to download
            models.Index(fields=["id"], name="attachment_waiting", condition=Q(status="waiting")),
            # retention: stored files by age
            models.Index(fields=["created_at"], name="attachment_stored", condition=Q(status="stored") & ~Q(path="")),
        ]

    def __str__(self) -> str:
        return self.filename or self.kind
