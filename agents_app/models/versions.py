"""Stored versions of agents."""

from django.db import models


class AgentVersion(models.Model):
    """The configuration of an agent at one time. Number 0 is the draft, which no run uses unless it names it."""

    id = models.BigAutoField(primary_key=True)
    agent = models.ForeignKey("agents_app.Agent", on_delete=models.CASCADE, related_name="versions", db_index=False)
    number = models.PositiveIntegerField()
    configuration = models.JSONField(help_text="Values by field; other objects by name.")
    note = models.CharField(max_length=300, blank=True)
    actor = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        db_table = "komand_agent_version"
        constraints = [models.UniqueConstraint(fields=["agent", "number"], name="agent_version_once")]

    def __str__(self) -> str:
        return f"version {self.number}" if self.number else "draft"
