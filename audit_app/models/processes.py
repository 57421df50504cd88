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
    folder = models.CharField(max_length=64, default="", db_default="", help_text="Written by 0.3 alone.")
    has_file = models.BooleanField(
        default=False, db_default=False, help_text="Its file is in `hosts` of its data folder."
    )
    is_blind = models.BooleanField(
        default=False, db_default=False, help_text="It cannot read live text, so that workers store it."
    )
    sweeps = models.BooleanField(
        default=False, db_default=False, help_text="It has a reaper. The oldest live one sweeps for all."
    )

    class Meta:
        db_table = "komand_process_life"
        verbose_name_plural = "process lives"

    def __str__(self) -> str:
        return f"{self.name} ({self.host}:{self.pid})"
