"""Heartbeats of processes."""

from django.db import models


class ProcessLife(models.Model):
    """The heartbeat of a process, on PostgreSQL. Its lock ends with its connection (see `liveness.pg_locks`)."""

    id = models.UUIDField(primary_key=True)
    name = models.CharField(max_length=64)
    host = models.CharField(max_length=255)
    pid = models.IntegerField()
    lock_key = models.BigIntegerField()
    beat = models.BigIntegerField(default=0)
    started_at = models.DateTimeField(auto_now_add=True)
    folder = models.CharField(
        max_length=64, default="", db_default="", help_text="Id of the data folder of the process."
    )

    class Meta:
        db_table = "komand_process_life"
        verbose_name_plural = "process lives"

    def __str__(self) -> str:
        return f"{self.name} ({self.host}:{self.pid})"
