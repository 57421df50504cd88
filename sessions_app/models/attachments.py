"""Attachments of messages: their source, their stored file and their text."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from audit_app.kernel.ids import new_id
from sessions_app.models.channels import ChannelAccount
from sessions_app.models.sessions import Turn


class Attachment(models.Model):
    """A file of a user turn: one that a channel's message names, or one that a user has uploaded for a message.

    `owner` is the process that downloads a channel's file. The run of the turn starts when all its files are downloaded
    or `until` has passed. An uploaded file has no turn until its message is sent, with which it becomes an artifact.
    """

    IN_MESSAGE, IN_FILE, FAILED = "message", "file", "failed"
    TRANSCRIPTIONS = [
        ("", "none"),
        (IN_MESSAGE, "its words are those of the message"),
        (IN_FILE, "its words are the text of the file"),
        (FAILED, "failed"),
    ]
    STATUSES = [(status, status) for status in ("waiting", "stored", "skipped", "failed")]

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    turn = models.ForeignKey(
        Turn, null=True, on_delete=models.CASCADE, related_name="+", help_text="Empty until its message is sent."
    )
    account = models.ForeignKey(
        ChannelAccount,
        null=True,
        on_delete=models.CASCADE,
        related_name="+",
        db_index=False,
        help_text="Channel account that received it. Empty for an uploaded file.",
    )
    uploader = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        db_index=False,
        help_text="User who uploaded it.",
    )
    artifact_id = models.UUIDField(null=True, help_text="File of the session that has the content, if uploaded.")
    position = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="Position among the uploaded files of its message."
    )
    sha256 = models.CharField(max_length=64, blank=True, default="", db_default="")
    kind = models.CharField(max_length=12, help_text="image, audio, voice, video, file or sticker.")
    filename = models.CharField(max_length=200, blank=True)
    mime_type = models.CharField(max_length=100, blank=True, help_text="Declared by the sender; detected once stored.")
    size_bytes = models.BigIntegerField(null=True, help_text="Declared by the sender; measured once stored.")
    source = models.TextField(help_text="Id of the file on the platform, or its URL. Empty for an uploaded file.")
    status = models.CharField(max_length=10, choices=STATUSES, default="waiting")
    owner = models.UUIDField(null=True)
    until = models.DateTimeField(help_text="Time limit of the download. After it, the run starts without the file.")
    album_until = models.DateTimeField(null=True, help_text="Time until which further files of the album may arrive.")
    path = models.CharField(
        max_length=100, blank=True, help_text="Path in the folder `attachments` of the data folder."
    )
    text = models.TextField(
        blank=True, help_text="Text of a text file or of audio, cut to the part that models receive."
    )
    characters = models.IntegerField(null=True, help_text="Length of the whole text file.")
    page_count = models.PositiveIntegerField(
        null=True, help_text="Pages of a document, sheets of a workbook or slides of a presentation, if known."
    )
    error = models.CharField(max_length=300, blank=True)
    transcription = models.CharField(
        max_length=10,
        choices=TRANSCRIPTIONS,
        blank=True,
        default="",
        db_default="",
        help_text="State of the transcription of an audio file.",
    )
    omitted_because = models.CharField(
        max_length=300, blank=True, default="", db_default="", help_text="Reason why the model did not get the content."
    )
    created_at = models.DateTimeField()

    class Meta:
        db_table = "komand_attachment"
        ordering = ["id"]
        indexes = [
            # fetcher and reaper: files to download
            models.Index(fields=["id"], name="attachment_waiting", condition=Q(status="waiting")),
            # retention: stored files by age
            models.Index(fields=["created_at"], name="attachment_stored", condition=Q(status="stored") & ~Q(path="")),
            # limits of uploads: files of a user that are not sent; retention: those by age
            models.Index(fields=["uploader"], name="attachment_of_uploader", condition=Q(turn=None)),
            models.Index(fields=["created_at"], name="attachment_unsent", condition=Q(turn=None)),
        ]

    def __str__(self) -> str:
        return self.filename or self.kind

    @property
    def has_content(self) -> bool:
        """Return whether the file is in a message, and its content was kept when the row was read."""
        return self.turn_id is not None and bool(self.artifact_id or self.path)

    @property
    def is_shown_image(self) -> bool:
        """Return whether it has a type that every browser shows and that cannot contain scripts."""
        return self.has_content and self.mime_type in ("image/png", "image/jpeg", "image/gif", "image/webp")
