"""Channel accounts, their inbound messages and their deliveries."""

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator
from django.db import models
from django.db.models import Q

from agents_app.models import Agent, Run
from audit_app.kernel.ids import new_id
from audit_app.kernel.rules import CheckedJSONField, TextListField, check_object
from sessions_app.models.sessions import Session, Turn


class ChannelAccount(models.Model):
    """A configured account of a channel, such as a bot or an endpoint. Secrets are encrypted and never shown again."""

    ACCESS = [("open", "open to everyone"), ("allow_list", "listed senders"), ("paired", "paired senders")]

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    channel = models.SlugField(
        max_length=40, help_text="Registered channel, such as telegram or webhook. Part of the URL."
    )
    account_id = models.SlugField(max_length=120, default="default", help_text="Name of the account. Part of the URL.")
    config = CheckedJSONField(
        rule=check_object, default=dict, blank=True, help_text="Fields that docs/channels.md lists for the channel."
    )
    secrets_sealed = models.TextField(blank=True, editable=False)
    agent = models.ForeignKey(
        Agent,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="Agent of new sessions. Empty: the default agent.",
    )
    access = models.CharField(
        max_length=12, choices=ACCESS, default="paired", help_text="Senders who may use the account."
    )
    allowed_senders = TextListField(
        most=10_000,
        longest=200,
        default=list,
        blank=True,
        help_text="Ids of senders or groups, for the mode allow_list.",
    )
    tools = TextListField(
        most=500,
        longest=120,
        null=True,
        blank=True,
        help_text="Names of the tools that runs for its senders may use. Null: none if the account is open to "
        "everyone, else those of the agent.",
    )
    messages_per_day = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MaxValueValidator(1_000_000)],
        help_text="Limit of messages per sender and day. Empty: KOMAND_OPEN_MESSAGES_PER_DAY if the account is open to "
        "everyone, else the limit of the channel (e-mail: 100; others: none).",
    )
    is_enabled = models.BooleanField(default=True)
    last_inbound_at = models.DateTimeField(null=True, blank=True)
    last_sent_at = models.DateTimeField(null=True, blank=True)
    last_error = models.CharField(max_length=500, blank=True)
    last_error_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "komand_channel_account"
        ordering = ["channel", "account_id"]
        constraints = [models.UniqueConstraint(fields=["channel", "account_id"], name="channel_account_name")]

    def __str__(self) -> str:
        return f"{self.channel}/{self.account_id}"

    def allowed_tools(self) -> list[str] | None:
        """Return the names of the tools that runs for the account's senders may use, None for those of the agent.

        An open account without a list has none: senders whom nobody knows get no tool that nobody chose for them.
        """
        return [] if self.tools is None and self.access == "open" else self.tools

    def clean(self) -> None:
        """Require a list of tools of an account that is open to everyone, so that an operator has chosen them."""
        if self.access == "open" and self.tools is None:
            problem = "An account that is open to everyone needs a list of its tools: their names, or none."
            raise ValidationError({"tools": problem})


class SenderDay(models.Model):
    """The messages of one sender to one account on one day (UTC). Stored only for accounts with a budget."""

    account = models.ForeignKey(ChannelAccount, on_delete=models.CASCADE, related_name="+", db_index=False)
    sender_id = models.CharField(max_length=200)
    day = models.DateField()
    messages = models.PositiveIntegerField(default=0)

    class Meta:
        db_table = "komand_sender_day"
        constraints = [models.UniqueConstraint(fields=["account", "sender_id", "day"], name="sender_day_once")]
        indexes = [models.Index(fields=["day"], name="sender_day_old")]  # retention

    def __str__(self) -> str:
        return f"{self.sender_id} on {self.day}: {self.messages}"


class InboundMessage(models.Model):
    """A received message, with its run or the reason why it has none."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    account = models.ForeignKey(ChannelAccount, on_delete=models.CASCADE, related_name="+")
    message_id = models.CharField(
        max_length=200, help_text="Id of the message on the platform, unique within the account."
    )
    sender_id = models.CharField(max_length=200)
    sender_name = models.CharField(max_length=200, blank=True)
    chat_id = models.CharField(max_length=200, help_text="Chat of the message, and of the answer.")
    text = models.TextField(blank=True)
    attachments = models.JSONField(default=list, blank=True)
    metadata = models.JSONField(default=dict, blank=True)
    raw = models.TextField(null=True, help_text="Payload as received, stored for at most seven days.")  # noqa: DJ001
    session = models.ForeignKey(Session, null=True, on_delete=models.SET_NULL, related_name="+", db_index=False)
    turn = models.ForeignKey(Turn, null=True, on_delete=models.SET_NULL, related_name="+")
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="+")
    reason = models.CharField(max_length=60, blank=True, help_text="Reason why no run answers it. Empty if one does.")
    sent_at = models.DateTimeField()
    received_at = models.DateTimeField()

    class Meta:
        db_table = "komand_inbound_message"
        ordering = ["-id"]
        indexes = [
            # sweeper: payloads by age
            models.Index(fields=["received_at"], name="inbound_raw", condition=Q(raw__isnull=False)),
            # target of an answer: the newest message of a session
            models.Index(fields=["session", "id"], name="inbound_of_session"),
            # pairing and notices: recent messages of a sender without access
            models.Index(fields=["account", "sender_id", "id"], name="inbound_refused", condition=~Q(reason="")),
        ]

    def __str__(self) -> str:
        return f"{self.message_id} from {self.sender_id}"


class GroupMessage(models.Model):
    """A message of a group that was not for us: context of the next message that is. Stored until it expires."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    account = models.ForeignKey(ChannelAccount, on_delete=models.CASCADE, related_name="+", db_index=False)
    key = models.CharField(max_length=200, help_text="Deduplication key, by which the platform reports changes.")
    chat_id = models.CharField(max_length=200)
    thread_id = models.CharField(max_length=200, blank=True)
    sender_id = models.CharField(max_length=200)
    sender_name = models.CharField(max_length=200, blank=True)
    text = models.TextField()
    sent_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "komand_group_message"
        constraints = [models.UniqueConstraint(fields=["account", "key"], name="group_message_once")]
        indexes = [
            # the last messages of a chat or thread
            models.Index(fields=["account", "chat_id", "thread_id", "id"], name="group_message_last"),
            models.Index(fields=["expires_at"], name="group_message_expired"),  # retention
        ]

    def __str__(self) -> str:
        return f"{self.key} from {self.sender_id}"


class InboundKey(models.Model):
    """A deduplication key of an inbound message. Stored for longer than any platform repeats a message."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    account = models.ForeignKey(ChannelAccount, on_delete=models.CASCADE, related_name="+", db_index=False)
    key = models.CharField(max_length=200)
    message = models.ForeignKey(InboundMessage, on_delete=models.CASCADE, related_name="keys")

    class Meta:
        db_table = "komand_inbound_key"
        # The sweeper deletes by age, which is the order of the ids.
        constraints = [models.UniqueConstraint(fields=["account", "key"], name="inbound_key_once")]

    def __str__(self) -> str:
        return self.key


# Not `status__in`: SQLite uses the partial index for a query with parameters only in this form.
IS_OPEN = Q(status="pending") | Q(status="sending")


class Delivery(models.Model):
    """An outbound message: a part of an answer, or a notice. Those of one ordering key are sent in the order of ids.

    `owner` is the process that sends it, or that shows a draft of it. `follows_doubt` is no column: it is set
    where earlier deliveries of the ordering key have an open doubt, by `transitions.list_due`.
    """

    follows_doubt = False

    STATUSES = [(status, status) for status in ("draft", "pending", "sending", "sent", "failed", "unknown", "expired")]
    OPEN = ("pending", "sending")
    KINDS = [(kind, kind) for kind in ("answer", "step", "failure", "notice", "approval", "press", "push")]

    id = models.BigAutoField(primary_key=True)
    dedupe_key = models.CharField(max_length=200, unique=True, help_text="Deduplication key: run:part:target.")
    account = models.ForeignKey(ChannelAccount, on_delete=models.CASCADE, related_name="+", db_index=False)
    session = models.ForeignKey(Session, null=True, on_delete=models.CASCADE, related_name="+", db_index=False)
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="+")
    ordering_key = models.CharField(
        db_column="lane",
        max_length=260,
        help_text="Account and chat. Deliveries with one key are sent one at a time and in order.",
    )
    target = models.JSONField(
        default=dict, help_text="Chat, thread and message to reply to, in the terms of the adapter."
    )
    kind = models.CharField(max_length=12, choices=KINDS, default="answer")
    part = models.IntegerField(default=0)
    parts = models.IntegerField(default=1)
    text = models.TextField(blank=True, help_text="Plain text.")
    body = models.TextField(blank=True, help_text="The text in the format of the channel.")
    filename = models.CharField(
        max_length=200,
        blank=True,
        help_text="If set, the body or the file of the session is sent as a file of this name.",
    )
    artifact_id = models.UUIDField(null=True, help_text="File of the session that is sent, if any.")
    buttons = models.JSONField(default=list, help_text="[[label, action id, style]], for channels with buttons.")
    approval_id = models.UUIDField(null=True, help_text="Approval whose outcome it does not show yet.")
    question_id = models.UUIDField(
        null=True, help_text="Question whose buttons it shows and whose answer it does not show yet."
    )
    status = models.CharField(max_length=10, choices=STATUSES, default="pending")
    is_doubt_open = models.BooleanField(
        default=False, db_default=False, help_text="It may not have arrived, and the chat has no note about that yet."
    )
    owner = models.UUIDField(null=True)
    tries = models.IntegerField(default=0)
    ready_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    provider_message_id = models.CharField(max_length=200, blank=True)
    error = models.CharField(max_length=500, blank=True)
    report = models.CharField(
        max_length=10,
        blank=True,
        db_default="",
        default="",
        choices=[("delivered", "delivered"), ("read", "read")],
        help_text="Reported by the platform after it was sent, if the platform reports it.",
    )
    reported_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "komand_delivery"
        ordering = ["-id"]
        verbose_name_plural = "deliveries"
        indexes = [
            # sender: the first open delivery of each ordering key
            models.Index(fields=["ordering_key", "id"], name="delivery_open", condition=IS_OPEN),
            # sweeper: expired deliveries
            models.Index(fields=["expires_at"], name="delivery_expiring", condition=Q(status="pending")),
            # sweeper: previews of runs that ended without an answer
            models.Index(fields=["id"], name="delivery_draft", condition=Q(status="draft")),
            # sweeper: approvals that may have been decided
            models.Index(fields=["approval_id"], name="delivery_asking", condition=Q(approval_id__isnull=False)),
            # sweeper: questions that may have been answered
            models.Index(fields=["question_id"], name="delivery_question", condition=Q(question_id__isnull=False)),
            # admin: deliveries that failed, or may have
            models.Index(
                fields=["status", "id"],
                name="delivery_trouble",
                condition=Q(status="failed") | Q(status="unknown") | Q(status="expired"),
            ),
            # sender: deliveries that the next one of the chat has to mention
            models.Index(fields=["ordering_key", "id"], name="delivery_doubt", condition=Q(is_doubt_open=True)),
            # reports of platforms
            models.Index(fields=["account", "provider_message_id"], name="delivery_reported"),
            # reaper: deliveries with an owner
            models.Index(fields=["owner"], name="delivery_owned", condition=Q(owner__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"delivery {self.pk} {self.status}"


class Pairing(models.Model):
    """A sender who is paired with an account, or the one-time code for a sender who is not yet."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    account = models.ForeignKey(ChannelAccount, on_delete=models.CASCADE, related_name="+", db_index=False)
    code_digest = models.CharField(max_length=64, blank=True, editable=False)
    expires_at = models.DateTimeField(null=True, help_text="Expiry of the code. Empty once it was used.")
    sender_id = models.CharField(max_length=200, blank=True)
    sender_name = models.CharField(max_length=200, blank=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="User of the sender. An operator can decide approval requests in that chat.",
    )
    created_at = models.DateTimeField(auto_now_add=True)
    paired_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "komand_pairing"
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["account", "sender_id"], condition=~Q(sender_id=""), name="pairing_once_per_sender"
            )
        ]
        indexes = [
            models.Index(fields=["account", "sender_id"], name="pairing_sender"),  # every message to the account
            # unused codes
            models.Index(fields=["account", "code_digest"], name="pairing_code", condition=Q(sender_id="")),
        ]

    def __str__(self) -> str:
        return self.sender_name or self.sender_id or "open code"
