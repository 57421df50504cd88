"""Files that runs write and read. `storage.artifacts` stores their content, in the data folder."""

from django.db import models

from audit_app.kernel.ids import new_id
from tools_app.models.executions import UNKNOWN_ORIGINS


class Artifact(models.Model):
    """A file of a session, such as `out/report.md`. The path is a label: on disk, the file is named `blob`."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    session_id = models.UUIDField()
    run_id = models.UUIDField(null=True, help_text="Last run that wrote the file. Empty: uploaded by a user.")
    agent_id = models.CharField(max_length=120)
    path = models.CharField(max_length=200)
    folded_path = models.CharField(max_length=600, help_text="Case-folded path, unique within the session.")
    media_type = models.CharField(max_length=120)
    size_bytes = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    blob = models.UUIDField(help_text="File name in the session's folder. Each change of the content gets a new one.")
    origins = models.TextField(
        blank=True,
        default="",
        db_default=UNKNOWN_ORIGINS,
        help_text="Origins of the content, one a line: `file` for an upload, else those of what the run had read.",
    )
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        db_table = "komand_artifact"
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["session_id", "folded_path"], name="artifact_once_per_path")]

    def __str__(self) -> str:
        return self.path
