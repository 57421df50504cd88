"""The audit log, the timeline of events, and the heartbeats of processes.

Ids of higher layers are plain values here, never foreign keys.
"""

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


class SearchEntry(models.Model):
    """An object that the full-text search finds. See `full_text.index`, its only reader and writer.

    On PostgreSQL it has another column, `vector`; on SQLite its words are in the table `komand_search_words`.
    """

    id = models.BigIntegerField(primary_key=True, help_text="Position in the index: higher for newer objects.")
    object_id = models.UUIDField(unique=True)
    scope = models.CharField(max_length=40, help_text="Digest of the set of objects that are searched together.")
    packed = models.BinaryField(null=True, help_text="Compressed words of the object, on SQLite only.")

    class Meta:
        db_table = "komand_search_entry"
        verbose_name_plural = "search entries"

    def __str__(self) -> str:
        return str(self.object_id)


class SearchProgress(models.Model):
    """The progress of indexing one kind of objects in the background. Ids: those of objects, which rise with time."""

    kind = models.CharField(max_length=40, primary_key=True)
    newest = models.UUIDField(help_text="All objects up to this one are indexed, except those below `oldest`.")
    oldest = models.UUIDField(help_text="All objects from this one on are indexed.")
    is_complete = models.BooleanField(default=False, help_text="All older objects are indexed.")

    class Meta:
        db_table = "komand_search_progress"
        verbose_name_plural = "search progress"

    def __str__(self) -> str:
        return self.kind


class ProcessLife(models.Model):
    """The heartbeat of a process, on PostgreSQL. Its lock ends with its connection (see `liveness.pg_locks`)."""

    id = models.UUIDField(primary_key=True)
    name = models.CharField(max_length=64)
    host = models.CharField(max_length=255)
    pid = models.IntegerField()
    lock_key = models.BigIntegerField()
    beat = models.BigIntegerField(default=0)
    started_at = models.DateTimeField(auto_now_add=True)
    folder = models.CharField(
        max_length=64, default="", db_default="", help_text="Id of the data folder of the process."
    )

    class Meta:
        db_table = "komand_process_life"
        verbose_name_plural = "process lives"

    def __str__(self) -> str:
        return f"{self.name} ({self.host}:{self.pid})"
