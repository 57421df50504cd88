"""The webhook channel for programs: signed JSON in both directions, by the Standard Webhooks specification."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar
from urllib.parse import quote

import httpx2

from audit_app.kernel.errors import InvalidInput
from sessions_app.platforms.account_settings import AccountSettings, Setting
from sessions_app.platforms.base import (
    MIB,
    Acknowledgement,
    Checked,
    SendError,
    Unsupported,
    VerificationFailed,
    WebhookRequest,
    WrongShape,
)
from sessions_app.platforms.http import HttpAdapter, certainty_of, download, open_guarded_client, retry_after_seconds
from sessions_app.platforms.messages import (
    Attachment,
    ButtonPress,
    Capabilities,
    ChannelEvent,
    ChannelMessage,
    Chat,
    DeliveryReport,
    Ignored,
    Outgoing,
    OutgoingFile,
    ProfileChange,
    Rendered,
)
from sessions_app.platforms.rendering.renderer import MarkdownSource, render
from sessions_app.platforms.signatures import BadKeyError, check_key, is_signed, make_secret
from sessions_app.platforms.signed_post import LIFETIME_SECONDS, RETRIES, post_signed
from sessions_app.platforms.webhook_json import read_object
from tools_app.network import ssrf_guard

MAX_TEXT = 32_768
_DIALECT = MarkdownSource()
_LONGEST_ID = 200
# A session's id is made of the account, the sender and the conversation, and is limited itself.
_LONGEST_PLACE = 180
_MOST_FILES = 10
_LARGEST_SIZE = 2**53  # every JSON parser reads integers up to this exactly
_TYPES = {"failure": "run.failed"}


class Webhook(HttpAdapter):
    slug = "webhook"
    name = "Webhook"
    summary = "Standard Webhooks, both ways"
    needs_public_url = False
    setup_guide = (
        "Let your program send messages by POST to `{webhook}`, signed with the secret, which is shown once: "
        "see docs/channels.md. Answers go to the callback URL, signed with the same secret."
    )
    config_fields: ClassVar[Mapping[str, Setting]] = {
        "callback_url": Setting("where answers are posted", "url", is_required=True),
        "deltas": Setting("true: also post the text so far, as message.delta", "flag"),
        "files": Setting("true: post files of an answer as attachments; takes a public address", "flag"),
    }
    secret_fields: ClassVar[Mapping[str, str]] = {
        "secret": "whsec_…, signs both ways; generated if not given",
        "previous_secret": "whsec_…, still valid while the secret is being replaced",
        "public_key": "whpk_…, the sender's Ed25519 key, if it signs with one",
    }
    required_secrets: ClassVar[Sequence[str]] = ("secret",)
    shown_secrets: ClassVar[Sequence[str]] = ("secret",)

    def __init__(self, account: AccountSettings, **options: Any) -> None:
        super().__init__(account, **options)
        try:
            for name, key in account.secrets.items():
                check_key(key, is_public=name == "public_key")
            ssrf_guard.check_url(str(account.config["callback_url"]), allowed_private=account.reachable)
        except (BadKeyError, ssrf_guard.RefusedTargetError) as error:
            place = name if isinstance(error, BadKeyError) else "callback_url"
            raise InvalidInput(f"Webhook: {place}: {error}", code="bad_account") from None

    @classmethod
    def make_secrets(cls) -> dict[str, str]:
        return {"secret": make_secret()}

    def verify(self, request: WebhookRequest, now: datetime) -> None:
        is_ours = is_signed(
            [key for key in self.account.secrets.values() if key],
            message_id=request.header("webhook-id"),
            timestamp=request.header("webhook-timestamp"),
            signatures=request.header("webhook-signature"),
            body=request.body,
            now=now,
        )
        if not is_ours:
            raise VerificationFailed

    def parse(self, request: WebhookRequest, now: datetime) -> Sequence[ChannelEvent]:
        body = read_object(request)
        reader = _READERS.get(str(body.get("type", "")))
        if reader is None:
            return [Ignored("unknown_type")]
        sent_at = datetime.fromtimestamp(int(request.header("webhook-timestamp")), UTC)
        return [reader(_Fields(body), request.header("webhook-id"), sent_at)]

    def acknowledge(self, request: WebhookRequest, channel_events: Sequence[ChannelEvent]) -> Acknowledgement:
        return Acknowledgement(202, {"id": request.header("webhook-id")})

    def capabilities(self, chat: Chat) -> Capabilities:
        # Programs fetch what is posted by its link, which takes a public address of this installation.
        posts_files = bool(self.account.config.get("files") and self.account.public_url.startswith("http"))
        return Capabilities(
            attachments_out=posts_files,
            file_bytes=_LARGEST_SIZE if posts_files else 0,
            drafts="native" if self.account.config.get("deltas") else "none",
            draft_seconds=0.5,
            buttons=True,
            button_bytes=256,
            attachments_in=True,
            file_in_bytes=20 * MIB,
            max_text=MAX_TEXT,
            threads=True,
            dialect="Markdown",
            can_repeat=True,
            pushes_back=True,
            lifetime_seconds=LIFETIME_SECONDS,
            retries=RETRIES,
            account_rate=100.0,
        )

    def render(self, markdown: str, chat: Chat) -> tuple[Rendered, ...]:
        return render(markdown, _DIALECT, MAX_TEXT)

    async def send(self, message: Outgoing) -> str:
        kind = "approval.requested" if message.buttons else _TYPES.get(message.kind, "message.created")
        await self._post(kind, message, message.key)
        return message.key

    async def draft(self, message: Outgoing, draft_id: int) -> None:
        if not self.account.config.get("deltas"):
            raise Unsupported("The account is not configured for deltas.")
        now = self.clock()
        await self._post("message.delta", message, f"{message.key}-{int(now.timestamp() * 1000)}")

    def fetch(self, file: Attachment, most_bytes: int) -> AsyncGenerator[bytes, None]:
        return download(self.client, file.url or "", most_bytes, follow_redirects=True)

    async def check(self) -> Checked:
        body = {"type": "account.tested", "timestamp": self.clock().isoformat(), "data": {}}
        await self._deliver(f"test-{int(self.clock().timestamp() * 1000)}", body)
        return Checked((f"{self.account.config['callback_url']} accepted a signed test.",))

    async def _post(self, kind: str, message: Outgoing, message_id: str) -> None:
        chat = message.target.chat
        data: dict[str, Any] = {
            "conversationId": chat.thread_id or chat.id,
            "senderId": chat.id,
            "text": message.rendered.body,
            "messageId": message.key,
            "inReplyTo": message.target.reply_to or None,
            "part": message.part + 1,
            "parts": message.parts,
            "isNotice": message.kind not in ("answer", "failure"),
            "sessionId": message.session_key or None,
            "runId": message.run_id or None,
            "channel": self.name,
            "recipientId": chat.id,
            "timestamp": self.clock().isoformat(),
            "attachments": [_posted(message.file)] if message.file else [],
        }
        if message.buttons:
            data["buttons"] = [{"label": button.label, "actionId": button.action_id} for button in message.buttons]
        await self._deliver(message_id, {"type": kind, "timestamp": self.clock().isoformat(), "data": data})

    async def _deliver(self, message_id: str, content: Mapping[str, Any]) -> None:
        body, now = json.dumps(content, ensure_ascii=False).encode(), self.clock()
        keys = [self.account.secrets[name] for name in ("secret", "previous_secret") if self.account.secrets.get(name)]
        url = str(self.account.config["callback_url"])
        response = await post_signed(self.client, url, body, keys=keys, message_id=message_id, now=now)
        if response.is_success:
            return
        status = response.status_code
        raise SendError(
            f"The callback URL answered with status {status}.",
            certainty_of(status),
            retry_after_seconds=retry_after_seconds(response.headers, now) if status in (429, 502, 503, 504) else None,
            slows_account=True,  # all messages go to the same address
            ends_account=status == 410,
        )

    def open_client(self) -> httpx2.AsyncClient:
        return open_guarded_client(self.account.reachable)


def _posted(file: OutgoingFile) -> dict[str, Any]:
    """Return a file in the shape in which messages to us have theirs."""
    size = len(file.content)
    return {"filename": file.name, "mimeType": file.media_type, "sizeBytes": size, "url": file.url or None}


class _Fields:
    """The fields of `data`, with the problems found in them."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        data = body.get("data")
        self.body = body
        self.data: Mapping[str, Any] = data if isinstance(data, dict) else {}
        self.problems: dict[str, str] = {} if isinstance(data, dict) else {"data": "must be an object"}

    def text(self, name: str, *, required: bool = False, longest: int = _LONGEST_ID) -> str:
        value = self.data.get(name)
        if value is None and not required:
            return ""
        if not isinstance(value, str) or (required and not value.strip()):
            self.problems[f"data.{name}"] = "must be text"
            return ""
        if len(value) > longest:
            self.problems[f"data.{name}"] = f"has more than {longest} characters"
        return value

    def place(self, name: str, *, required: bool = False) -> str:
        """Return an id that becomes a part of the session's id, percent-encoded."""
        value = self.text(name, required=required)
        if len(quote(value, safe="")) > _LONGEST_PLACE:
            self.problems[f"data.{name}"] = f"has more than {_LONGEST_PLACE} characters when it is percent-encoded"
        return value

    def attachments(self) -> tuple[Attachment, ...]:
        items = self.data.get("attachments") or []
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            self.problems["data.attachments"] = "must be a list of objects"
            return ()
        if len(items) > _MOST_FILES:
            self.problems["data.attachments"] = f"has more than {_MOST_FILES} entries"
        return tuple(self._attachment(number, item) for number, item in enumerate(items[:_MOST_FILES]))

    def _attachment(self, number: int, item: Mapping[str, Any]) -> Attachment:
        url, name, kind, size = (item.get(key) for key in ("url", "filename", "mimeType", "sizeBytes"))
        if not (isinstance(url, str) and url):
            self.problems[f"data.attachments.{number}.url"] = "must be text"
        if not all(text is None or isinstance(text, str) for text in (name, kind)):
            self.problems[f"data.attachments.{number}"] = "filename and mimeType must be text"
        if not (size is None or (type(size) is int and 0 <= size <= _LARGEST_SIZE)):
            self.problems[f"data.attachments.{number}.sizeBytes"] = "must be a whole number, the file's size"
        family = str(kind).partition("/")[0]
        shown_as = family if family in ("image", "audio", "video") else "file"
        return Attachment(str(url), shown_as, name, kind, size, str(url))

    def check(self) -> None:
        """Raise WrongShape with all problems, if there are any."""
        if self.problems:
            raise WrongShape("Some fields are missing or wrong.", fields=self.problems)


def _read_message(fields: _Fields, webhook_id: str, sent_at: datetime) -> ChannelEvent:
    sender, conversation = fields.place("senderId", required=True), fields.place("conversationId")
    text, native = fields.text("text", longest=1_000_000), fields.text("messageId")
    name = fields.text("senderDisplayName", longest=1000)
    metadata = fields.data.get("metadata") or {}
    if not isinstance(metadata, dict):
        fields.problems["data.metadata"] = "must be an object"
    attachments = fields.attachments()
    if not text.strip() and not attachments:
        fields.problems["data.text"] = "is empty"
    sent_at = _read_timestamp(fields, sent_at)
    fields.check()
    keys = (f"id:{webhook_id}", *([f"message:{native}"] if native else []))
    thread = conversation if conversation != sender else ""
    return ChannelMessage(
        message_id=webhook_id,
        sender_id=sender,
        sender_name=name,
        text=text,
        sent_at=sent_at,
        chat=Chat(sender, "direct", thread),
        keys=keys,
        event_id=webhook_id,
        attachments=attachments,
        metadata={"conversationId": conversation or sender, "custom": metadata},
    )


def _read_press(fields: _Fields, webhook_id: str, sent_at: datetime) -> ChannelEvent:
    action, sender = fields.text("actionId", required=True), fields.place("senderId", required=True)
    conversation = fields.place("conversationId")
    fields.check()
    thread = conversation if conversation != sender else ""
    return ButtonPress(action, sender, "", Chat(sender, "direct", thread), "", webhook_id, (f"id:{webhook_id}",))


def _read_report(fields: _Fields, webhook_id: str, sent_at: datetime) -> ChannelEvent:
    message_id, error = fields.text("messageId", required=True), fields.text("error", longest=500)
    fields.check()
    return DeliveryReport(message_id, str(fields.body["type"]).removeprefix("message."), error)


def _read_profile(fields: _Fields, webhook_id: str, sent_at: datetime) -> ChannelEvent:
    sender, name = fields.place("senderId", required=True), fields.text("senderDisplayName", required=True)
    fields.check()
    return ProfileChange(sender, name)


_READERS = {
    "message.received": _read_message,
    "message.delivered": _read_report,
    "message.read": _read_report,
    "message.failed": _read_report,
    "action.performed": _read_press,
    "profile.updated": _read_profile,
}


def _read_timestamp(fields: _Fields, sent_at: datetime) -> datetime:
    place = "timestamp" if "timestamp" in fields.body else "data.timestamp"
    value = fields.body.get("timestamp", fields.data.get("timestamp"))
    if value is None:
        return sent_at
    try:
        moment = datetime.fromisoformat(value)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        fields.problems[place] = "must be an ISO 8601 time"
        return sent_at
