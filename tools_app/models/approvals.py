"""Approval requests. Only `executions.transitions` writes their status."""

from django.db import models
from django.db.models import Q

from audit_app.kernel.ids import new_id
from tools_app.models.executions import ToolExecution
from tools_app.types import ApprovalStatus, Decision


class Approval(models.Model):
    """A request to a user: may this execution run? Decided once; bound to the arguments shown."""

    STATUSES = [(status.value, status.value) for status in ApprovalStatus]

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    execution = models.OneToOneField(ToolExecution, on_delete=models.CASCADE, related_name="approval")
    run_id = models.UUIDField()
    digest = models.CharField(max_length=64, help_text="Digest of the tool and the arguments that were shown.")
    reason = models.CharField(max_length=200, help_text="Reason for the request, from the policy.")
    status = models.CharField(max_length=10, choices=STATUSES, default=ApprovalStatus.PENDING.value)
    is_standing = models.BooleanField(default=True, help_text="A permanent grant is possible.")
    run_pattern = models.TextField(blank=True, help_text="Pattern that a grant for the rest of the run would allow.")
    pattern = models.TextField(blank=True, help_text="Pattern that a permanent grant would allow.")
    origins = models.TextField(
        blank=True, default="", db_default="", help_text="Origins of what the run had read, one a line."
    )
    credentials = models.JSONField(
        default=list,
        db_default=models.Value([], models.JSONField()),
        help_text="Names of the credentials that the call uses.",
    )
    credential_owner = models.CharField(
        max_length=40,
        blank=True,
        default="",
        db_default="",
        help_text="Owner of the credentials: user:<id> or installation.",
    )
    decision = models.CharField(max_length=12, blank=True, help_text="Decision of the user.")
    decided_by = models.CharField(max_length=200, blank=True)
    note = models.TextField(blank=True)
    needs_two = models.BooleanField(
        default=False, db_default=False, help_text="Two people must allow it, neither of them the requester."
    )
    first_allowed_by = models.CharField(max_length=200, blank=True, default="", db_default="")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "komand_approval"
        ordering = ["-id"]
        indexes = [
            # REST: requests about calls with credentials of the caller
            models.Index(
                fields=["credential_owner", "-id"], name="approval_of_credential", condition=~Q(credential_owner="")
            ),
            # sweeper: expired requests; admin and REST: pending requests
            models.Index(fields=["expires_at"], name="approval_pending", condition=Q(status="pending")),
            # decide: whether the run has further pending requests
            models.Index(fields=["run_id"], name="approval_of_run", condition=Q(status="pending")),
        ]

    def __str__(self) -> str:
        return f"approval of {self.execution_id} {self.status}"

    @property
    def choices(self) -> tuple[Decision, ...]:
        """Return the decisions that may be made. Two people decide one call at a time."""
        if self.needs_two:
            return (Decision.ALLOW_ONCE, Decision.DENY)
        return tuple(choice for choice in Decision if self.is_standing or choice is not Decision.ALLOW_ALWAYS)
