"""Memories of agents."""

from django.db import models

from audit_app.kernel.ids import new_id
from tools_app.models.executions import UNKNOWN_ORIGINS


class Memory(models.Model):
    """A memory of an agent for one actor, under a key that the agent chose. Runs of other actors cannot read it."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    agent_id = models.CharField(max_length=120)
    actor = models.CharField(max_length=200, help_text="Whom it was stored for, such as user:7.")
    key = models.CharField(max_length=120)
    text = models.TextField()
    run_id = models.UUIDField(help_text="The run that wrote it last.")
    origins = models.TextField(
        blank=True,
        default="",
        db_default=UNKNOWN_ORIGINS,
        help_text="What the run that wrote it had read from outside, one origin a line.",
    )
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        db_table = "komand_memory"
        ordering = ["-updated_at"]
        verbose_name_plural = "memories"
        constraints = [models.UniqueConstraint(fields=["agent_id", "actor", "key"], name="memory_once_per_key")]
        indexes = [models.Index(fields=["-updated_at"], name="memory_recent")]  # admin list

    def __str__(self) -> str:
        return self.key
