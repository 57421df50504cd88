"""The emergency stop of all agents, or of one."""

from django.db import models


class Control(models.Model):
    """State of one scope: an agent's public id, or empty for all agents. No row: never stopped."""

    scope = models.CharField(max_length=120, primary_key=True)
    is_stopped = models.BooleanField()
    reason = models.CharField(max_length=300, blank=True)
    changed_by = models.CharField(max_length=200)
    changed_at = models.DateTimeField()

    class Meta:
        db_table = "komand_control"
        ordering = ["scope"]
        verbose_name = "emergency stop"
        verbose_name_plural = "emergency stop"

    def __str__(self) -> str:
        return f"{self.scope or 'all agents'} {'stopped' if self.is_stopped else 'running'}"
