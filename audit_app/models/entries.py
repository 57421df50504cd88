"""Entries of the audit log, and the signed statements about them."""

from django.db import models

from audit_app.kernel.ids import new_id


class AuditEntry(models.Model):
    """An entry of the audit log: one significant action. Append-only."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    action = models.CharField(max_length=64)
    actor = models.CharField(max_length=200)
    agent_id = models.CharField(max_length=120, blank=True)
    session_id = models.UUIDField(null=True, blank=True)
    session_key = models.CharField(max_length=512, blank=True, help_text="Public id of the session at that time.")
    request_id = models.CharField(max_length=128, blank=True)
    at = models.DateTimeField()
    details = models.JSONField(default=dict)
    number = models.BigIntegerField(
        null=True, editable=False, help_text="Position in the chain, from 1. Set by a seal."
    )
    hash = models.CharField(max_length=64, default="", db_default="", editable=False)

    class Meta:
        db_table = "komand_audit_log"
        ordering = ["-id"]
        verbose_name = "audit entry"
        verbose_name_plural = "audit log"
        indexes = [
            models.Index(fields=["session_id", "id"], name="audit_session"),  # rebuild one conversation
            models.Index(fields=["action", "id"], name="audit_action"),  # admin filter, /api/audit
            # admin: what one request did
            models.Index(fields=["request_id", "id"], name="audit_request", condition=~models.Q(request_id="")),
            models.Index(fields=["id"], name="audit_unsealed", condition=models.Q(number=None)),  # sealer
        ]
        constraints = [
            models.UniqueConstraint(fields=["number"], name="audit_number", condition=models.Q(number__isnull=False))
        ]

    def __str__(self) -> str:
        return f"{self.action} by {self.actor}"


class AuditSeal(models.Model):
    """A signed statement about the entries `first` to `last`, and so about all before them (see `chain.hashes`)."""

    number = models.BigIntegerField(primary_key=True)
    first = models.BigIntegerField()
    last = models.BigIntegerField()
    hash = models.CharField(max_length=64, help_text="Hash of the last entry.")
    newest_at = models.DateTimeField(help_text="Time of the newest entry.")
    sealed_at = models.DateTimeField()
    signature = models.CharField(max_length=64)

    class Meta:
        db_table = "komand_audit_seal"

    def __str__(self) -> str:
        return f"seal {self.number} of entries {self.first}-{self.last}"


class AuditCut(models.Model):
    """A signed statement that retention removed the entries 1 to `last`. There is at most one row, with the key 1."""

    seal = models.BigIntegerField(help_text="Number of the last removed seal.")
    last = models.BigIntegerField()
    hash = models.CharField(max_length=64, help_text="Hash of the last removed entry.")
    cut_at = models.DateTimeField()
    signature = models.CharField(max_length=64)

    class Meta:
        db_table = "komand_audit_cut"

    def __str__(self) -> str:
        return f"entries 1-{self.last} removed"
