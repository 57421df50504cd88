"""Texts of open steps that Valkey did not take."""

from django.db import models


class LiveCopy(models.Model):
    """The text of an open step, stored while Valkey does not take it. `entry` has a position in the claim's stream."""

    id = models.BigAutoField(primary_key=True)
    run_id = models.UUIDField()
    fence = models.IntegerField(help_text="Number of the claim. Only that claim writes the row.")
    n = models.IntegerField()
    entry = models.TextField(help_text="The entry of the stream as JSON.")
    stored_at = models.DateTimeField()

    class Meta:
        db_table = "komand_live_copy"
        verbose_name_plural = "live copies"
        constraints = [models.UniqueConstraint(fields=["run_id", "fence"], name="live_copy_once_per_claim")]
        indexes = [models.Index(fields=["stored_at"], name="live_copy_old")]  # retention

    def __str__(self) -> str:
        return f"text of run {self.run_id} at {self.fence}-{self.n}"
