"""WhatsApp by the Cloud API: one webhook for all numbers of an app, and the Graph API to send.

See https://developers.facebook.com/docs/whatsapp/cloud-api.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import parse_qs

import httpx2

from audit_app.kernel.errors import InvalidInput
from sessions_app.platforms.account_settings import AccountSettings, Setting
from sessions_app.platforms.adapters.whatsapp.payloads import read_payload
from sessions_app.platforms.base import (
    MIB,
    Acknowledgement,
    Checked,
    FetchError,
    SendCertainty,
    SendError,
    VerificationFailed,
    WebhookRequest,
    read_guide,
)
from sessions_app.platforms.http import download, open_client, retry_after_seconds
from sessions_app.platforms.json_api import JsonApi, as_object
from sessions_app.platforms.messages import (
    Attachment,
    Capabilities,
    ChannelEvent,
    Chat,
    Ignored,
    Outgoing,
    OutgoingFile,
    Rendered,
    Target,
)
from sessions_app.platforms.rendering.renderer import render
from sessions_app.platforms.rendering.signed_text import SignedText
from sessions_app.platforms.signatures import same_secret
from sessions_app.platforms.webhook_json import read_object


class WhatsAppText(SignedText):
    """The text format of WhatsApp. A zero-width space keeps a sign from beginning a format."""

    format_signs: ClassVar[Mapping[str, str]] = {"bold": "*", "italic": "_", "strike": "~", "code": "`"}
    literal = "\\g<sign>\u200b"


API, VERSION = "https://graph.facebook.com", "v25.0"
MAX_TEXT, _MAX_BUTTON_TEXT, _MAX_CAPTION, _MAX_TITLE = 4096, 1024, 1024, 20
_DIGITS = re.compile(r"[0-9]{5,25}", re.ASCII)
_VERSION = re.compile(r"v[0-9]{1,3}\.[0-9]", re.ASCII)
# Meta's hosts of media, to which the token may be sent.
_MEDIA_HOSTS = re.compile(r"(?:[a-z0-9-]+\.)*(?:fbsbx\.com|fbcdn\.net)", re.ASCII)
_PICTURES, _MAX_PICTURE = ("image/jpeg", "image/png"), 5 * MIB
# Error codes of the Graph API (https://developers.facebook.com/docs/whatsapp/cloud-api/support/error-codes).
_PAIR_LIMIT, _ACCOUNT_LIMITS, _PASSING = 131056, (4, 80007, 130429, 131048), (1, 2, 131000, 131016, 133004)
_BLOCKED = (190, 368, 131031)
_WAIT_SECONDS = {_PAIR_LIMIT: 6.0, **dict.fromkeys(_ACCOUNT_LIMITS, 15.0)}
_REMEDIES = {
    131047: "The person has not written for 24 hours: WhatsApp takes only templates until they do.",
    190: "The access token is not valid or has expired: create one of a system user, which does not expire.",
}
_DIALECT = WhatsAppText()


class WhatsApp(JsonApi):
    slug = "whatsapp"
    shows_presses = True
    name = "WhatsApp"
    summary = "Cloud API of Meta by webhook"
    setup_guide = read_guide(__file__)
    methods: ClassVar[Sequence[str]] = ("GET", "POST")
    max_body_bytes: ClassVar[int] = 3 * MIB
    routed_by = "phone_number_id"
    config_fields: ClassVar[Mapping[str, Setting]] = {
        "phone_number_id": Setting("the id of our number (not the number), from API Setup", is_required=True),
        "app_id": Setting("the id of the app: `channel test` then sets its webhook"),
        "graph_version": Setting(f"version of the Graph API; default {VERSION}"),
        "api_url": Setting(f"another server than {API}", "url"),
        "chat_seconds": Setting("shortest time between two messages to a person, in seconds; default 1", "number"),
    }
    secret_fields: ClassVar[Mapping[str, str]] = {
        "access_token": "the token of a system user with whatsapp_business_messaging",
        "app_secret": "the secret of the app, which signs its requests",
        "verify_token": "a text of your choice, entered at Meta with the address; generated if not given",
    }
    required_secrets: ClassVar[Sequence[str]] = ("access_token", "app_secret", "verify_token")
    shown_secrets: ClassVar[Sequence[str]] = ("verify_token",)

    def __init__(self, account: AccountSettings, **options: Any) -> None:
        super().__init__(account, **options)
        config = account.config
        version = str(config.get("graph_version") or VERSION)
        for name in ("phone_number_id", "app_id"):
            if config.get(name) and not _DIGITS.fullmatch(config[name]):
                raise InvalidInput(f"WhatsApp: {name} may only have digits.", code="bad_account")
        if not _VERSION.fullmatch(version):
            raise InvalidInput(f"WhatsApp: graph_version reads like {VERSION}.", code="bad_account")
        self._number = str(config["phone_number_id"])
        self._origin = str(config.get("api_url") or API).rstrip("/")
        self._base = f"{self._origin}/{version}"
        self._without_buttons: set[str] = set()  # keys of messages whose text was sent and whose buttons were not

    @classmethod
    def asks(cls, account: AccountSettings) -> dict[str, str | None]:
        return {**super().asks(account), "app_id": ""}

    @classmethod
    def make_secrets(cls) -> dict[str, str]:
        return {"verify_token": secrets.token_urlsafe(24)}

    def verify(self, request: WebhookRequest, now: datetime) -> None:
        hidden = self.account.secrets
        if request.method == "GET":
            query = parse_qs(request.query)
            is_ours = query.get("hub.mode") == ["subscribe"] and len(query.get("hub.verify_token", ())) == 1
            if not is_ours or not same_secret(query["hub.verify_token"][0], hidden["verify_token"]):
                raise VerificationFailed
            return
        expected = hmac.digest(hidden["app_secret"].encode(), request.body, "sha256").hex()
        if not same_secret(request.header("x-hub-signature-256"), f"sha256={expected}"):
            raise VerificationFailed

    def parse(self, request: WebhookRequest, now: datetime) -> Sequence[ChannelEvent]:
        if request.method == "GET":
            return [Ignored("handshake")]
        return read_payload(read_object(request), self._number)

    def acknowledge(self, request: WebhookRequest, channel_events: Sequence[ChannelEvent]) -> Acknowledgement:
        if request.method == "GET":
            challenge = parse_qs(request.query).get("hub.challenge", [""])[0]
            return Acknowledgement(200, challenge[:200], "text/plain; charset=utf-8")
        return Acknowledgement()

    def capabilities(self, chat: Chat) -> Capabilities:
        return Capabilities(
            typing=True,
            typing_seconds=20.0,
            buttons=True,
            button_bytes=256,
            max_buttons=3,
            attachments_in=True,
            attachments_out=True,
            file_bytes=100 * MIB,
            file_in_bytes=100 * MIB,
            max_text=MAX_TEXT,
            groups=True,
            proactive="within 24 hours after the person wrote",
            dialect="WhatsApp formatting",
            chat_seconds=float(self.account.config.get("chat_seconds", 1.0)),
            account_rate=60.0,
        )

    def render(self, markdown: str, chat: Chat) -> tuple[Rendered, ...]:
        return render(markdown, _DIALECT, MAX_TEXT, takes_files=True)

    async def send(self, message: Outgoing) -> str:
        if message.file:
            return await self._send_file(message, message.file)
        if not message.buttons:
            return await self._send(message, {"type": "text", "text": _text(message.rendered.body)})
        body = message.rendered.body
        if len(body) > _MAX_BUTTON_TEXT:  # a message with buttons holds less than one without
            if message.key not in self._without_buttons:  # else only the buttons were refused at the last try
                await self._send(message, {"type": "text", "text": _text(body)})
                self._without_buttons.add(message.key)
            body = "Your decision?"
        buttons = [
            {"type": "reply", "reply": {"id": button.action_id, "title": button.label[:_MAX_TITLE]}}
            for button in message.buttons
        ]
        card = {"type": "button", "body": {"text": body}, "action": {"buttons": buttons}}
        sent_id = await self._send(message, {"type": "interactive", "interactive": card})
        self._without_buttons.discard(message.key)
        return sent_id

    async def typing(self, target: Target) -> None:
        if target.reply_to:  # the indicator belongs to a message that it also marks as read
            status = {"status": "read", "message_id": target.reply_to, "typing_indicator": {"type": "text"}}
            await self._post(f"{self._number}/messages", json={"messaging_product": "whatsapp", **status})

    async def fetch(self, file: Attachment, most_bytes: int) -> AsyncGenerator[bytes, None]:
        if not _DIGITS.fullmatch(file.id):
            raise FetchError("its id is not valid", is_final=True)
        try:
            found = await self.call_json("GET", f"{self._base}/{file.id}")
            url = httpx2.URL(str(found["url"]))
        except SendError as error:
            raise FetchError(error.message, is_final=error.certainty is SendCertainty.REFUSED) from None
        except (KeyError, httpx2.InvalidURL):
            raise FetchError("WhatsApp returned no address", is_final=True) from None
        is_meta = url.scheme == "https" and _MEDIA_HOSTS.fullmatch(url.host)
        if not is_meta and not str(url).startswith(f"{self._origin}/"):
            raise FetchError("its address does not belong to Meta", is_final=True)
        digest = hashlib.sha256()
        async for piece in download(self.client, str(url), most_bytes):
            digest.update(piece)
            yield piece
        if found.get("sha256") and not hmac.compare_digest(digest.hexdigest(), str(found["sha256"])):
            raise FetchError("its content is not what WhatsApp announced", is_final=True)

    async def check(self) -> Checked:
        fields = {"fields": "verified_name,display_phone_number"}
        found = await self.call_json("GET", f"{self._base}/{self._number}", params=fields)
        lines = [f"The number is {found.get('display_phone_number')} ({found.get('verified_name')})."]
        url, app_id = self.account.public_url, self.account.config.get("app_id")
        if not url.startswith("https://"):
            lines.append("WhatsApp cannot reach us: KOMAND_PUBLIC_URL must be an https:// address.")
        elif not app_id:
            lines.append(f"Enter {url} and the verify_token at Meta: WhatsApp, Configuration, Webhook. Or set app_id.")
        else:
            hidden = self.account.secrets
            hook = {"object": "whatsapp_business_account", "callback_url": url, "fields": "messages"}
            tokens = {"verify_token": hidden["verify_token"], "access_token": f"{app_id}|{hidden['app_secret']}"}
            await self._post(f"{app_id}/subscriptions", data={**hook, **tokens})
            lines.append(f"WhatsApp sends events to {url}.")
        return Checked(tuple(lines))

    def open_client(self) -> httpx2.AsyncClient:
        client = open_client()
        client.headers["authorization"] = f"Bearer {self.account.secrets['access_token']}"
        return client

    async def _send_file(self, message: Outgoing, file: OutgoingFile) -> str:
        content = (file.name, file.content, file.media_type)
        fields = {"messaging_product": "whatsapp", "type": file.media_type}
        uploaded = await self._post(f"{self._number}/media", data=fields, files={"file": content})
        caption = message.rendered.text[:_MAX_CAPTION]
        media = {"id": uploaded["id"], **({"caption": caption} if caption else {})}
        if file.media_type in _PICTURES and len(file.content) <= _MAX_PICTURE:
            return await self._send(message, {"type": "image", "image": media})
        return await self._send(message, {"type": "document", "document": {**media, "filename": file.name}})

    async def _send(self, message: Outgoing, content: Mapping[str, Any]) -> str:
        chat, reply_to = message.target.chat, message.target.reply_to
        fields: dict[str, Any] = {
            "messaging_product": "whatsapp",
            "biz_opaque_callback_data": message.key[:500],
            **content,
        }
        if message.target.reference.get("hasNoNumber"):
            fields["recipient"] = chat.id
        else:
            fields |= {"to": chat.id, "recipient_type": "individual" if chat.type == "direct" else "group"}
        if reply_to and chat.type != "direct" and not message.part:
            fields["context"] = {"message_id": reply_to}
        sent = await self._post(f"{self._number}/messages", json=fields)
        try:
            return str(sent["messages"][0]["id"])
        except (KeyError, IndexError, TypeError):
            raise self.unreadable() from None

    async def _post(self, path: str, **content: Any) -> Any:
        return await self.call_json("POST", f"{self._base}/{path}", **content)

    def refusal_of(self, response: httpx2.Response, answer: Mapping[str, Any]) -> SendError:
        error = as_object(answer.get("error"))
        status = response.status_code
        code: Any = error.get("code")
        is_passing = code in _PASSING or code in _WAIT_SECONDS
        text = _REMEDIES.get(code) or str(error.get("message") or f"status {status}")
        return self.refusal(
            response,
            f"{text} ({code or status})",
            SendCertainty.NOT_SENT if is_passing else None,
            retry_after_seconds=retry_after_seconds(response.headers, self.clock()) or _WAIT_SECONDS.get(code),
            slows_account=code in _ACCOUNT_LIMITS,
            ends_account=code in _BLOCKED or status == 401,
        )


def _text(body: str) -> dict[str, Any]:
    return {"body": body, "preview_url": False}
