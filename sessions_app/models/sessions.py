"""Sessions and their turns."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from agents_app.models import Agent, Run
from audit_app.kernel.ids import new_id


class Session(models.Model):
    """One conversation of one party with one agent on one channel.

    `key` is the public id, `{Channel}:{AccountId}:{SenderId}[:{ThreadId}]` with percent-encoded parts. Without a
    thread part it names the sender's current session.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    key = models.CharField(max_length=512, unique=True)
    channel = models.CharField(max_length=40)
    account_id = models.CharField(max_length=120, default="default")
    sender_id = models.CharField(max_length=200)
    sender_name = models.CharField(max_length=200, blank=True)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")
    title = models.CharField(max_length=255, blank=True)
    metadata = models.JSONField(default=dict, blank=True, help_text="What a surface keeps about it, by its name.")
    policy = models.JSONField(default=dict, blank=True, help_text="What its owner forbids: {readonly, deniedTools}.")
    message_count = models.IntegerField(default=0)
    next_ordinal = models.IntegerField(default=0)
    last_active_at = models.DateTimeField()
    created_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "komand_session"
        ordering = ["-last_active_at"]
        indexes = [
            # chat page: my sessions, newest first
            models.Index(fields=["owner", "-last_active_at"], name="session_of_owner", condition=Q(deleted_at=None)),
            models.Index(fields=["-last_active_at"], name="session_recent"),  # admin list
        ]

    def __str__(self) -> str:
        return self.title or self.key


class Turn(models.Model):
    """One message of a session, sorted by (ordinal of its run, part): the user's words, then what the run said."""

    ROLES = [("system", "system"), ("user", "user"), ("assistant", "assistant"), ("tool", "tool")]
    STATES = [("complete", "complete"), ("partial", "partial"), ("error", "error")]

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="turns")
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="+")
    ordinal = models.IntegerField()
    part = models.IntegerField()
    role = models.CharField(max_length=12, choices=ROLES)
    content = models.TextField(blank=True)
    attached = models.TextField(blank=True, help_text="What the files that came with it say, for the model.")
    html = models.TextField(blank=True, help_text="Sanitised rendering of the content, made once on first view.")
    state = models.CharField(max_length=10, choices=STATES, default="complete")
    error_code = models.CharField(max_length=60, blank=True)
    error_message = models.TextField(blank=True, help_text="Why it is partial or an error, for people to read.")
    is_answer = models.BooleanField(default=False, help_text="The turn that ends its run: at most one a run.")
    tool_calls = models.JSONField(default=list, help_text="Assistant: [{id, name, arguments}] as the model sent them.")
    tool_call_ids = models.JSONField(null=True, help_text="Ids of the executions this turn asked for or reports.")
    tool_call_id = models.CharField(max_length=200, blank=True, help_text="Tool: the model's id of the answered call.")
    citations = models.JSONField(default=list, help_text="Assistant: what the text cites, as `citations.Citation`.")
    idempotency_key = models.CharField(max_length=64, null=True, unique=True)  # noqa: DJ001 - null: no key
    body_digest = models.CharField(max_length=64, blank=True, help_text="Tells a repeated message from another one.")
    created_at = models.DateTimeField()

    class Meta:
        db_table = "komand_turn"
        ordering = ["session", "ordinal", "part"]
        constraints = [
            models.UniqueConstraint(fields=["session", "ordinal", "part"], name="turn_place"),
            models.UniqueConstraint(fields=["run"], condition=Q(is_answer=True), name="turn_one_answer_per_run"),
        ]
        indexes = [
            # retention: keys whose time is over
            models.Index(fields=["id"], name="turn_keyed", condition=Q(idempotency_key__isnull=False))
        ]

    def __str__(self) -> str:
        return f"{self.role} turn {self.ordinal}.{self.part}"
