"""Memories of agents."""

from django.db import models
from django.db.models import F, Q

from audit_app.kernel.ids import new_id
from tools_app.models.executions import UNKNOWN_ORIGINS

# A user has approved it after its last change, or the run that wrote it had read nothing from outside.
IS_TRUSTED = Q(origins="") | Q(approved_at__gte=F("updated_at"))


class Memory(models.Model):
    """A memory of an agent for one actor, under a key that the agent chose. Runs of other actors cannot read it."""

    SOURCES = [("person", "said by the person"), ("tool", "from outside"), ("agent", "concluded by the agent")]

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    agent_id = models.CharField(max_length=120)
    actor = models.CharField(max_length=200, help_text="Actor that it belongs to, such as user:7.")
    key = models.CharField(max_length=120)
    text = models.TextField()
    run_id = models.UUIDField(help_text="Last run that wrote it.")
    source = models.CharField(
        max_length=8,
        choices=SOURCES,
        blank=True,
        default="",
        db_default="",
        help_text="Kind of source. Empty: stored by an older release, so unknown.",
    )
    is_pinned = models.BooleanField(
        default=False, db_default=False, help_text="Include in every prompt, not only when it is relevant."
    )
    approved_at = models.DateTimeField(
        null=True, help_text="Time of the approval. A later change of the text revokes it."
    )
    approved_by = models.CharField(max_length=200, blank=True, default="", db_default="")
    origins = models.TextField(
        blank=True,
        default="",
        db_default=UNKNOWN_ORIGINS,
        help_text="Origins of what the run that wrote it had read, one a line.",
    )
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        db_table = "komand_memory"
        ordering = ["-updated_at"]
        verbose_name_plural = "memories"
        constraints = [models.UniqueConstraint(fields=["agent_id", "actor", "key"], name="memory_once_per_key")]
        indexes = [
            models.Index(fields=["-updated_at"], name="memory_recent"),  # admin list
            models.Index(fields=["actor", "-updated_at"], name="memory_of_actor"),  # a person's own page
        ]

    def __str__(self) -> str:
        return self.key

    @property
    def is_trusted(self) -> bool:
        """Return whether IS_TRUSTED holds."""
        return not self.origins or (self.approved_at is not None and self.approved_at >= self.updated_at)
