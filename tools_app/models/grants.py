"""Grants: calls allowed in advance, for the rest of a run, or for an agent until revoked."""

from django.db import models
from django.db.models import Q

from audit_app.kernel.ids import new_id


class Grant(models.Model):
    """A pattern of calls that no longer need approval. Never overrides a rule that denies."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    agent_id = models.CharField(max_length=120)
    run_id = models.UUIDField(
        null=True, blank=True, help_text="Run that it is limited to. Empty: every run of the agent."
    )
    pattern = models.TextField()
    approval_id = models.UUIDField(null=True, help_text="Approval request that it was given for.")
    granted_by = models.CharField(max_length=200)
    created_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    revoked_by = models.CharField(max_length=200, blank=True)

    class Meta:
        db_table = "komand_grant"
        ordering = ["-id"]
        indexes = [
            # authorization and REST: the agent's permanent grants
            models.Index(
                fields=["agent_id"], name="grant_standing", condition=Q(run_id__isnull=True, revoked_at__isnull=True)
            ),
            # authorization: the run's grants
            models.Index(fields=["run_id"], name="grant_of_run", condition=Q(run_id__isnull=False)),
        ]

    def __str__(self) -> str:
        return self.pattern
