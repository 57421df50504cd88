"""Telegram bots: updates arrive at the webhook or by long polling, messages are sent by the Bot API.

See https://core.telegram.org/bots/api.
"""

import re
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any, ClassVar

import httpx2

from audit_app.kernel.errors import InvalidInput
from sessions_app.platforms.account_settings import AccountSettings, Setting
from sessions_app.platforms.adapters.telegram.dialect import TelegramHtml
from sessions_app.platforms.adapters.telegram.long_poll import UPDATES, poll
from sessions_app.platforms.adapters.telegram.updates import Bot, read_update
from sessions_app.platforms.base import (
    MIB,
    Checked,
    FetchError,
    SendCertainty,
    SendError,
    VerificationFailed,
    WebhookRequest,
    read_guide,
)
from sessions_app.platforms.http import certainty_of, download
from sessions_app.platforms.json_api import JsonApi, as_object
from sessions_app.platforms.link import Link
from sessions_app.platforms.messages import (
    Attachment,
    Capabilities,
    ChannelEvent,
    Chat,
    Outgoing,
    OutgoingFile,
    Rendered,
    Target,
)
from sessions_app.platforms.rendering.renderer import render
from sessions_app.platforms.signatures import same_secret
from sessions_app.platforms.webhook_json import read_json

API = "https://api.telegram.org"
MAX_TEXT = 4096
_TOKEN = re.compile(r"(?P<id>[0-9]{3,20}):[A-Za-z0-9_-]{20,100}", re.ASCII)
_FILE_PATH = re.compile(r"(?:[A-Za-z0-9_-]+/)*[A-Za-z0-9_-][A-Za-z0-9_.-]*", re.ASCII)
_SECRET = re.compile(r"[A-Za-z0-9_-]{16,256}", re.ASCII)
# Slightly slower than Telegram's limits: about one message a second in a chat, twenty a minute in a group.
_PRIVATE_SECONDS, _GROUP_SECONDS = 1.1, 3.1
_DRAFT_SECONDS = 0.6
_DIALECT = TelegramHtml()


class Telegram(JsonApi):
    slug = "telegram"
    name = "Telegram"
    summary = "Bot API by webhook or long polling"
    can_listen = True
    proves_senders = True
    setup_guide = read_guide(__file__)
    config_fields: ClassVar[Mapping[str, Setting]] = {
        "receive": Setting(
            "webhook, or polling, without a public address; default: polling if KOMAND_PUBLIC_URL is not https://",
            "choice",
            choices=("webhook", "polling"),
        ),
        "bot_username": Setting("the bot's name without @; set by `channel test`"),
        "read_all_groups": Setting("true: answer every message of a group, not only those for the bot", "flag"),
        "known_bots": Setting("ids of other bots that may talk to this one", "ids"),
        "drafts": Setting("false: no previews of unfinished answers", "flag"),
        "api_url": Setting(f"another Bot API server than {API}", "url"),
        "chat_seconds": Setting("shortest time between two messages in a chat, in seconds", "number"),
    }
    secret_fields: ClassVar[Mapping[str, str]] = {
        "bot_token": "the token from @BotFather",
        "webhook_secret": "verifies that updates come from Telegram; generated if not given",
    }
    required_secrets: ClassVar[Sequence[str]] = ("bot_token", "webhook_secret")

    def __init__(self, account: AccountSettings, **options: Any) -> None:
        super().__init__(account, **options)
        token = _TOKEN.fullmatch(account.secrets["bot_token"])
        if token is None:
            raise InvalidInput("Telegram: bot_token does not look like a bot's token.", code="bad_account")
        if not _SECRET.fullmatch(account.secrets["webhook_secret"]):
            raise InvalidInput(
                "Telegram: webhook_secret must have 16 to 256 letters, digits, _ or -.", code="bad_account"
            )
        config = account.config
        self._bot = Bot(
            token["id"],
            str(config.get("bot_username", "")).removeprefix("@"),
            bool(config.get("read_all_groups")) or config.get("groups") == "all",
            frozenset(str(known) for known in config.get("known_bots", ())),
        )
        self._base = str(config.get("api_url") or API).rstrip("/")

    @classmethod
    def make_secrets(cls) -> dict[str, str]:
        return {"webhook_secret": secrets.token_urlsafe(32)}

    def verify(self, request: WebhookRequest, now: datetime) -> None:
        given = request.header("x-telegram-bot-api-secret-token")
        if not same_secret(given, self.account.secrets["webhook_secret"]):
            raise VerificationFailed

    def parse(self, request: WebhookRequest, now: datetime) -> Sequence[ChannelEvent]:
        return [read_update(read_json(request), self._bot)]

    @property
    def listens(self) -> bool:
        default = "webhook" if self.account.public_url.startswith("https://") else "polling"
        return bool(self.account.config.get("receive", default) == "polling")

    async def listen(self, link: Link) -> None:
        await poll(self._request, link, self._bot)

    def capabilities(self, chat: Chat) -> Capabilities:
        is_private = chat.type == "direct"
        pause = float(self.account.config.get("chat_seconds", _PRIVATE_SECONDS if is_private else _GROUP_SECONDS))
        drafts = ("native" if is_private else "edit") if self.account.config.get("drafts", True) else "none"
        return Capabilities(
            drafts=drafts,
            draft_seconds=_DRAFT_SECONDS if is_private else pause,
            draft_keep_seconds=25.0 if is_private else None,
            typing=True,
            buttons=True,
            button_bytes=64,
            attachments_in=True,
            attachments_out=True,
            file_bytes=50 * MIB,
            file_in_bytes=20 * MIB,
            max_text=MAX_TEXT,
            text_unit="utf16",
            edit_sent=True,
            threads=True,
            groups=True,
            proactive="after the person wrote",
            dialect="Telegram HTML",
            chat_seconds=pause,
        )

    def render(self, markdown: str, chat: Chat) -> tuple[Rendered, ...]:
        return render(markdown, _DIALECT, MAX_TEXT, takes_files=True)

    async def send(self, message: Outgoing) -> str:
        if message.kind == "press":
            answer = {"callback_query_id": message.target.press_id, "text": message.rendered.text[:200]}
            await self._call("answerCallbackQuery", answer)
            return ""
        if message.file:
            return str((await self._send_file(message, message.file))["message_id"])
        fields = {**_place(message.target), **_reply(message), **_keyboard(message)}
        result = await self._call_with_text("sendMessage", fields, message.rendered)
        return str(result["message_id"])

    async def edit(self, message: Outgoing, message_id: str) -> None:
        fields = {"chat_id": int(message.target.chat.id), "message_id": int(message_id), **_keyboard(message)}
        try:
            await self._call_with_text("editMessageText", fields, message.rendered)
        except SendError as error:
            if "message is not modified" not in error.message:
                raise

    async def draft(self, message: Outgoing, draft_id: int) -> None:
        fields = {**_place(message.target), "draft_id": draft_id, "can_stop": True}
        await self._call_with_text("sendMessageDraft", fields, message.rendered)

    async def typing(self, target: Target) -> None:
        await self._call("sendChatAction", {**_place(target), "action": "typing"})

    async def fetch(self, file: Attachment, most_bytes: int) -> AsyncGenerator[bytes, None]:
        try:
            found = await self._call("getFile", {"file_id": file.id})
        except SendError as error:
            raise FetchError(error.message, is_final=error.certainty is SendCertainty.REFUSED) from None
        path = str(found.get("file_path", ""))
        if not _FILE_PATH.fullmatch(path):
            raise FetchError("Telegram returned no usable file path", is_final=True)
        url = f"{self._base}/file/bot{self.account.secrets['bot_token']}/{path}"
        async with aclosing(download(self.client, url, most_bytes)) as pieces:
            async for piece in pieces:
                yield piece

    async def check(self) -> Checked:
        me = await self._who()
        lines = [f"The bot is @{me['username']} ({me['id']}).", await self._set_way()]
        info = await self._call("getWebhookInfo", {})
        if info.get("last_error_message"):
            lines.append(f"Telegram's last error: {info['last_error_message']}")
        lines.append(f"{info.get('pending_update_count', 0)} updates are pending.")
        return Checked(tuple(lines), {"bot_username": me["username"]})

    async def _set_way(self) -> str:
        """Set or delete the webhook, as the account receives. Returns a line for the operator."""
        url = self.account.public_url
        if self.listens:
            await self._call("deleteWebhook", {"drop_pending_updates": False})
            return "Updates are fetched by long polling; no webhook is set."
        if not url.startswith("https://"):
            return "The webhook is not set: KOMAND_PUBLIC_URL must be an https:// address. Or set receive to polling."
        secret = self.account.secrets["webhook_secret"]
        hook = {"url": url, "secret_token": secret, "allowed_updates": UPDATES, "max_connections": 40}
        await self._call("setWebhook", hook)
        return f"Telegram sends updates to {url}."

    async def _who(self) -> Any:
        try:
            return await self._call("getMe", {})
        except SendError as error:
            if error.certainty is not SendCertainty.REFUSED:
                raise
            problem = f"{error.message}. The bot_token is not valid: copy it again from @BotFather."
            raise SendError(problem, SendCertainty.REFUSED) from None

    async def _call_with_text(self, method: str, fields: Mapping[str, Any], rendered: Rendered) -> Any:
        """Call a method with HTML; if Telegram cannot parse it, once more with plain text."""
        common = dict(fields)
        if method != "sendMessageDraft":
            common["link_preview_options"] = {"is_disabled": True}
        try:
            return await self._call(method, {**common, "text": rendered.body, "parse_mode": "HTML"})
        except SendError as error:
            if error.certainty is not SendCertainty.REFUSED or "can't parse entities" not in error.message:
                raise
        return await self._call(method, {**common, "text": rendered.text})

    async def _send_file(self, message: Outgoing, file: OutgoingFile) -> Any:
        place = {name: str(value) for name, value in _place(message.target).items()}
        fields = {**place, "caption": message.rendered.text[:1024]}
        files = {"document": (file.name, file.content, file.media_type)}
        return await self._request("sendDocument", data=fields, files=files)

    async def _call(self, method: str, fields: Mapping[str, Any]) -> Any:
        return await self._request(method, json=fields)

    async def _request(self, method: str, **content: Any) -> Any:
        return await self.call_json("POST", f"{self._base}/bot{self.account.secrets['bot_token']}/{method}", **content)

    def result_of(self, response: httpx2.Response, answer: Any) -> Any:
        """Return the `result` of an answer."""
        found = as_object(answer)
        if found.get("ok") is True and "result" in found:
            return found["result"]
        if found.get("ok", True) is True:  # not in Telegram's form
            found = {}
            if response.is_success:
                raise self.unreadable()
        status = int(found.get("error_code", response.status_code))
        further = found.get("parameters") or {}
        raise self.refusal(
            response,
            str(found.get("description") or f"status {status}"),
            certainty_of(status),
            retry_after_seconds=float(further.get("retry_after") or 0),
            moved_to=str(further.get("migrate_to_chat_id") or ""),
            ends_account=status == 401,
        )


def _place(target: Target) -> dict[str, Any]:
    place: dict[str, Any] = {"chat_id": int(target.chat.id)}
    if target.chat.thread_id:
        place["message_thread_id"] = int(target.chat.thread_id)
    return place


def _reply(message: Outgoing) -> dict[str, Any]:
    """Return the reference to the answered message, for the first part of an answer in a group."""
    if not message.target.reply_to or message.target.chat.type == "direct" or message.part:
        return {}
    native = int(message.target.reply_to.rpartition(":")[2])
    return {"reply_parameters": {"message_id": native, "allow_sending_without_reply": True}}


def _keyboard(message: Outgoing) -> dict[str, Any]:
    """Return the buttons, two in a row. A message that is edited without any loses those it had."""
    keys = [
        {"text": button.label, "callback_data": button.action_id, **({"style": button.style} if button.style else {})}
        for button in message.buttons
    ]
    rows = [keys[first : first + 2] for first in range(0, len(keys), 2)]
    return {"reply_markup": {"inline_keyboard": rows}} if rows else {}
