"""Values that runs share."""

from django.db import models


class SharedValue(models.Model):
    """A value under a key that the runs of one network, one tree of runs or one session share.

    version: raised by each write.
    writer: writer of the last one.
    """

    KINDS = [("network", "a run of a network"), ("run", "a run and its child runs"), ("session", "a session")]

    id = models.BigAutoField(primary_key=True)
    kind = models.CharField(max_length=8, choices=KINDS)
    owner_id = models.UUIDField(help_text="Id of the run or session that the space belongs to.")
    key = models.CharField(max_length=120)
    value = models.JSONField(null=True)
    version = models.PositiveIntegerField(default=1)
    writer = models.CharField(max_length=200)
    updated_at = models.DateTimeField()

    class Meta:
        db_table = "komand_shared_value"
        constraints = [models.UniqueConstraint(fields=["kind", "owner_id", "key"], name="shared_value_once_per_key")]
        indexes = [models.Index(fields=["updated_at"], name="shared_value_age")]  # retention

    def __str__(self) -> str:
        return self.key
