"""What people have allowed in advance: for the rest of one run, or for an agent until it is revoked."""

from django.db import models
from django.db.models import Q

from audit_app.kernel.ids import new_id


class Grant(models.Model):
    """One pattern of calls that need no person's decision any more. It never beats a rule that denies."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    agent_id = models.CharField(max_length=120)
    run_id = models.UUIDField(null=True, blank=True, help_text="Only for this run; empty: for every run of the agent.")
    pattern = models.TextField()
    approval_id = models.UUIDField(null=True, help_text="The request in answer to which it was given.")
    granted_by = models.CharField(max_length=200)
    created_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    revoked_by = models.CharField(max_length=200, blank=True)

    class Meta:
        db_table = "komand_grant"
        ordering = ["-id"]
        indexes = [
            # the gate: what an agent was allowed for ever; REST: the agent's grants
            models.Index(
                fields=["agent_id"], name="grant_standing", condition=Q(run_id__isnull=True, revoked_at__isnull=True)
            ),
            # the gate: what a run was allowed
            models.Index(fields=["run_id"], name="grant_of_run", condition=Q(run_id__isnull=False)),
        ]

    def __str__(self) -> str:
        return self.pattern
