"""The events of sessions, and their last numbers."""

from django.db import models


class TimelineHead(models.Model):
    """The last `seq` and `ts` of a session. Taking the next numbers locks this row until commit."""

    session_id = models.UUIDField(primary_key=True)
    seq = models.BigIntegerField()
    ts = models.BigIntegerField(help_text="Milliseconds since 1970, strictly rising within the session.")

    class Meta:
        db_table = "komand_timeline_head"

    def __str__(self) -> str:
        return f"{self.session_id} at {self.seq}"


class Event(models.Model):
    """A stored event of a session's timeline: gapless `seq`, strictly rising `ts`."""

    id = models.BigAutoField(primary_key=True)
    session_id = models.UUIDField()
    seq = models.BigIntegerField()
    ts = models.BigIntegerField()
    type = models.CharField(max_length=64)
    run_id = models.UUIDField(null=True)
    parent_run_id = models.UUIDField(null=True)
    workstream = models.CharField(max_length=120, blank=True)
    step = models.IntegerField(null=True)
    actor = models.CharField(max_length=200)
    request_id = models.CharField(max_length=128, blank=True)
    payload = models.JSONField(default=dict)

    class Meta:
        db_table = "komand_event"
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["session_id", "seq"], name="event_session_seq")]
        indexes = [models.Index(fields=["run_id", "seq"], name="event_run")]  # the run's page in the admin

    def __str__(self) -> str:
        return f"{self.type} #{self.seq}"
