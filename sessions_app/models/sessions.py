"""Sessions and their turns."""

import hashlib

from django.conf import settings
from django.db import models
from django.db.models import Q

from agents_app.models import Agent, Run
from audit_app.kernel.ids import new_id
from tools_app.types.authors import Author


class Session(models.Model):
    """A conversation of one sender with one agent on one channel.

    `key` is the public id, `{Channel}:{AccountId}:{SenderId}[:{ThreadId}]`, with percent-encoded parts. Without a
    thread part it is the sender's current session.
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
    metadata = models.JSONField(default=dict, blank=True, help_text="Data of surfaces, by the name of the surface.")
    policy = models.JSONField(
        default=dict, blank=True, help_text="Restrictions set by the owner: {readonly, deniedTools}."
    )
    message_count = models.IntegerField(default=0)
    next_ordinal = models.IntegerField(default=0)
    active_branch = models.IntegerField(
        default=0, db_default=0, help_text="Number of the branch that later messages continue; 0 is the first path."
    )
    is_temporary = models.BooleanField(
        default=False, db_default=False, help_text="Retention deletes it some time after its last message."
    )
    pinned_at = models.DateTimeField(null=True, blank=True, help_text="Its owner's list has it on top.")
    read_at = models.DateTimeField(
        null=True, blank=True, help_text="Its owner's list marks it as unread if it was active after this time."
    )
    last_active_at = models.DateTimeField()
    created_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "komand_session"
        ordering = ["-last_active_at"]
        permissions = [("send_as_anyone", "Can send messages as other senders")]
        indexes = [
            # chat page: the user's sessions, newest first
            models.Index(fields=["owner", "-last_active_at"], name="session_of_owner", condition=Q(deleted_at=None)),
            # chat page: the pinned ones among them
            models.Index(
                fields=["owner"], name="session_pinned", condition=Q(deleted_at=None, pinned_at__isnull=False)
            ),
            models.Index(fields=["-last_active_at"], name="session_recent"),  # admin list
            # retention: temporary sessions
            models.Index(
                fields=["last_active_at"], name="session_temporary", condition=Q(is_temporary=True, deleted_at=None)
            ),
        ]

    def __str__(self) -> str:
        return self.title or self.key


class Turn(models.Model):
    """A message of a session, ordered by the ordinal of its run and the part: user turns first, then the run's."""

    ROLES = [(role, role) for role in ("system", "user", "assistant", "tool", "author", "others")]
    # In front of a user turn of a channel, without content: who has written it, and, with `others`, texts of others
    # that belong to it. The text is in `attached`.
    CONTEXT_ROLES = ("author", "others")
    STATES = [("complete", "complete"), ("partial", "partial"), ("error", "error")]

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="turns")
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="+")
    ordinal = models.IntegerField()
    part = models.IntegerField()
    branch = models.IntegerField(default=0, db_default=0, help_text="Number of its branch; 0 is the first path.")
    is_off_path = models.BooleanField(
        default=False, db_default=False, help_text="Not on the active branch, so later runs do not read it."
    )
    is_pinned = models.BooleanField(
        default=False, db_default=False, help_text="Later runs read it in full, however old it is."
    )
    role = models.CharField(max_length=12, choices=ROLES)
    content = models.TextField(blank=True)
    attached = models.TextField(blank=True, help_text="Text of the attachments, or of a context, for the model.")
    origins = models.TextField(  # noqa: DJ001 - null and empty differ
        null=True,
        help_text="Origins of a text whose author is not the one of its role, one a line; empty: an agent that had "
        "read nothing from outside. Null: the author is that of the role.",
    )
    html = models.TextField(blank=True, help_text="Sanitised HTML of the content, rendered on first view.")
    state = models.CharField(max_length=10, choices=STATES, default="complete")
    error_code = models.CharField(max_length=60, blank=True)
    error_message = models.TextField(blank=True, help_text="Reason of the state partial or error, for users.")
    is_answer = models.BooleanField(default=False, help_text="The answer of its run. At most one per run.")
    tool_calls = models.JSONField(
        default=list, help_text="Calls of an assistant turn, as sent by the model: [{id, name, arguments}]."
    )
    tool_call_ids = models.JSONField(null=True, help_text="Ids of the executions that this turn requested or reports.")
    tool_call_id = models.CharField(
        max_length=200, blank=True, help_text="Id of the call of a tool turn, given by the model."
    )
    citations = models.JSONField(
        default=list, help_text="Citations of the text of an assistant turn, as `citations.Citation`."
    )
    idempotency_key = models.CharField(max_length=64, null=True, unique=True)  # noqa: DJ001 - null: no key
    body_digest = models.CharField(
        max_length=64,
        blank=True,
        help_text="Digest of the message, to detect another one with its key; with an answer, of all texts of its run.",
    )
    created_at = models.DateTimeField()

    class Meta:
        db_table = "komand_turn"
        ordering = ["session", "ordinal", "part"]
        constraints = [
            models.UniqueConstraint(fields=["session", "ordinal", "part"], name="turn_place"),
            models.UniqueConstraint(fields=["run"], condition=Q(is_answer=True), name="turn_one_answer_per_run"),
        ]
        indexes = [
            # retention: old keys
            models.Index(fields=["id"], name="turn_keyed", condition=Q(idempotency_key__isnull=False)),
            # history of a run: pinned turns that it does not read otherwise
            models.Index(fields=["session"], name="turn_pinned", condition=Q(is_pinned=True)),
            # import of a conversation: answers that were given before
            models.Index(
                fields=["body_digest"], name="turn_answer", condition=Q(role="assistant") & ~Q(body_digest="")
            ),
        ]

    def __str__(self) -> str:
        return f"{self.role} turn {self.ordinal}.{self.part}"

    @staticmethod
    def digest_of(answer: str) -> str:
        """Return the digest of an answer, empty for an empty one. Without white space: clients join its parts anew."""
        words = "".join(answer.split())
        return hashlib.sha256(words.encode(errors="replace")).hexdigest() if words else ""

    @property
    def author(self) -> Author:
        """Return the author of a user turn's content, which a person has written unless the turn has origins."""
        return Author.of(self.origins)

    @property
    def is_context(self) -> bool:
        return self.role in self.CONTEXT_ROLES


class Branch(models.Model):
    """A path of a session that begins with an edited message or a regenerated answer.

    It has the turns of its number, and before them those of `parent` below the ordinal `replaces`. The path with which
    a session begins has number 0 and no row.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="branches", db_index=False)
    number = models.IntegerField(help_text="From 1, in the order of creation.")
    parent = models.IntegerField(help_text="Number of the branch from which it departs.")
    replaces = models.IntegerField(help_text="Ordinal of the parent's run that it replaces.")
    ordinal = models.IntegerField(help_text="Ordinal of its first run.")
    created_at = models.DateTimeField()

    class Meta:
        db_table = "komand_branch"
        ordering = ["session", "number"]
        constraints = [models.UniqueConstraint(fields=["session", "number"], name="branch_number")]

    def __str__(self) -> str:
        return f"branch {self.number}"


class Checkpoint(models.Model):
    """A summary that stands, in the requests of later runs, for the turns of a session up to an ordinal.

    It is used as long as the turns of that ordinal are on the path of the active branch. The turns stay as they are.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="checkpoints", db_index=False)
    ordinal = models.IntegerField(help_text="Ordinal of the last run that the summary covers.")
    run = models.ForeignKey(
        Run, null=True, on_delete=models.SET_NULL, related_name="+", help_text="Run that created the summary."
    )
    index = models.IntegerField(help_text="Index among the preparing calls of its run, from 0.")
    reason = models.CharField(max_length=12, help_text="threshold, overflow or asked.")
    summary = models.TextField()
    origins = models.TextField(blank=True, help_text="Origins of the summarised content, one a line.")
    covered_turns = models.IntegerField(help_text="Number of summarised turns, including those of earlier checkpoints.")
    tokens_before = models.IntegerField(help_text="Estimated tokens of the request without the summary.")
    tokens_after = models.IntegerField(help_text="Estimated tokens of the request with the summary.")
    model = models.CharField(max_length=200, blank=True)
    prompt_version = models.CharField(max_length=32)
    created_at = models.DateTimeField()

    class Meta:
        db_table = "komand_checkpoint"
        ordering = ["session", "id"]
        constraints = [models.UniqueConstraint(fields=["run", "index"], name="checkpoint_once_per_compaction")]
        # history of a run: the newest one before it
        indexes = [models.Index(fields=["session", "-ordinal"], name="checkpoint_of_session")]

    def __str__(self) -> str:
        return f"summary up to {self.ordinal}"
