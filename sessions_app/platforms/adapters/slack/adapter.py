"""Slack apps: payloads arrive by the Events API or Socket Mode, messages are sent by the Web API.

See https://docs.slack.dev/reference/methods.
"""

import hmac
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import urlsplit

import httpx2

from sessions_app.platforms.account_settings import AccountSettings, Setting
from sessions_app.platforms.adapters.slack.events import Bot, name_of, read_payload, receipt_of
from sessions_app.platforms.adapters.slack.message_fields import (
    NO_TEXT,
    blocks_of,
    escaped,
    place_of,
    response_url_of,
    without_mentions,
)
from sessions_app.platforms.adapters.slack.socket_mode import listen
from sessions_app.platforms.adapters.slack.streams import Streams
from sessions_app.platforms.base import (
    MIB,
    Acknowledgement,
    ChannelAdapter,
    Checked,
    FetchError,
    NotReadable,
    SendCertainty,
    SendError,
    Unsupported,
    VerificationFailed,
    WebhookRequest,
    read_guide,
)
from sessions_app.platforms.http import certainty_of, download, post
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
from sessions_app.platforms.rendering.renderer import MarkdownSource, render
from sessions_app.platforms.signatures import is_recent, same_digest
from sessions_app.platforms.webhook_json import parse_json, read_form, read_json

API = "https://slack.com/api"
_WEBHOOK_GUIDE = read_guide(__file__, "set_up_webhook.md")
# `chat.update` refuses longer texts; blocks of Markdown may have more, their fallback text may not.
MAX_TEXT = 3900
_CHAT_SECONDS, _DRAFT_SECONDS = 1.1, 1.5
_DIALECT = MarkdownSource()
_ENDS_ACCOUNT = frozenset({"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"})
_TRY_AGAIN = frozenset({"ratelimited", "rate_limited", "service_unavailable", "team_added_to_org"})
_IN_DOUBT = frozenset({"fatal_error", "internal_error", "request_timeout"})
_NOT_A_MEMBER = frozenset({"channel_not_found", "not_in_channel"})
_NOT_RENDERED = frozenset({"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long"})


class Slack(JsonApi):
    slug = "slack"
    name = "Slack"
    summary = "Events API or Socket Mode"
    setup_guide = read_guide(__file__)
    follows_threads = True
    can_listen = True
    config_fields: ClassVar[Mapping[str, Setting]] = {
        "receive": Setting(
            "webhook, or socket, without a public address; default: socket if KOMAND_PUBLIC_URL is not https://",
            "choice",
            choices=("webhook", "socket"),
        ),
        "app_id": Setting("the app's id, A…; payloads of other apps are ignored"),
        "team_id": Setting("the id of the workspace, T…, or organisation, E…; set by `channel test`"),
        "bot_user_id": Setting("the id of the app's bot user, U…; set by `channel test`"),
        "known_bots": Setting("ids of other bots that may talk to this one", "ids"),
        "previews": Setting(
            "stream (default): streamed in threads, elsewhere as edit; edit: one message that grows; multi_message: "
            "finished texts as messages of their own; none",
            "choice",
            choices=("stream", "edit", "multi_message", "none"),
        ),
        "api_url": Setting(f"another Web API than {API}", "url"),
        "chat_seconds": Setting("shortest time between two messages in a chat, in seconds", "number"),
    }
    secret_fields: ClassVar[Mapping[str, str]] = {
        "bot_token": "the bot user OAuth token, xoxb-…, from OAuth & Permissions",
        "signing_secret": "the signing secret, from Basic Information; verifies payloads at the webhook",
        "app_token": "an app-level token, xapp-…, with connections:write; for Socket Mode",
    }
    required_secrets: ClassVar[Sequence[str]] = ("bot_token",)
    routed_by = "team_id"

    def __init__(self, account: AccountSettings, **options: Any) -> None:
        super().__init__(account, **options)
        config = account.config
        known_bots = frozenset(map(str, config.get("known_bots", ())))
        app_id, team_id, user_id = (str(config.get(name, "")) for name in ("app_id", "team_id", "bot_user_id"))
        self._bot = Bot(app_id, team_id, user_id, known_bots)
        self._base = str(config.get("api_url") or API).rstrip("/")
        self._previews = str(config.get("previews", "stream"))
        self._streams = Streams(self._call, self.clock)

    @classmethod
    def asks(cls, account: AccountSettings) -> dict[str, str | None]:
        return dict.fromkeys(("bot_token", "app_token" if _listens(account) else "signing_secret"))

    @classmethod
    def guide(cls, account: AccountSettings) -> str:
        return cls.setup_guide if _listens(account) else _WEBHOOK_GUIDE

    # Inbound.

    def verify(self, request: WebhookRequest, now: datetime) -> None:
        timestamp = request.header("x-slack-request-timestamp")
        secret = self.account.secrets.get("signing_secret", "")
        content = b"v0:" + timestamp.encode("latin-1", "replace") + b":" + request.body
        given = request.header("x-slack-signature")
        if not is_recent(timestamp, now) or not same_digest(given, secret, content, prefix="v0="):
            raise VerificationFailed

    def parse(self, request: WebhookRequest, now: datetime) -> Sequence[ChannelEvent]:
        return [read_payload(_payload_of(request), self._bot, now)]

    def acknowledge(self, request: WebhookRequest, channel_events: Sequence[ChannelEvent]) -> Acknowledgement:
        payload = read_json(request) if request.is_json else None
        if isinstance(payload, dict) and payload.get("type") == "url_verification":
            return Acknowledgement(200, {"challenge": str(payload.get("challenge", ""))})
        return Acknowledgement(body=next(filter(None, map(receipt_of, channel_events)), None))

    @property
    def listens(self) -> bool:
        return _listens(self.account)

    async def listen(self, link: Link) -> None:
        await listen(self._open_connection, link, self._bot, self.clock)

    def shares_connection(self, other: ChannelAdapter) -> bool:
        """Return whether both are of one app: then any of its connections gets the payloads of all workspaces."""
        tokens = [one.account.secrets.get("app_token", "") for one in (self, other)]
        return bool(tokens[0]) and hmac.compare_digest(tokens[0].encode(), tokens[1].encode())

    async def _open_connection(self) -> Any:
        return await self._call("apps.connections.open", {}, token=self.account.secrets["app_token"])

    def fetch(self, file: Attachment, most_bytes: int) -> AsyncGenerator[bytes, None]:
        return self._fetch(file, most_bytes)

    async def _fetch(self, file: Attachment, most_bytes: int) -> AsyncGenerator[bytes, None]:
        if not self._is_of_slack(file.url or ""):
            raise FetchError("its address does not belong to Slack", is_final=True)
        headers = {"authorization": f"Bearer {self.account.secrets['bot_token']}"}
        async with aclosing(download(self.client, file.url or "", most_bytes, headers=headers)) as pieces:
            async for piece in pieces:
                if piece.lstrip()[:15].lower() == b"<!doctype html>" and file.mime_type != "text/html":
                    raise FetchError("the app lacks the scope files:read", is_final=True)
                yield piece

    # Outbound.

    def capabilities(self, chat: Chat) -> Capabilities:
        pause, streams = float(self.account.config.get("chat_seconds", _CHAT_SECONDS)), self._streams_in(chat)
        return Capabilities(
            drafts="edit" if self._previews == "stream" else self._previews,
            draft_seconds=pause if streams else max(pause, min(_DRAFT_SECONDS, pause * 1.5)),
            tool_statuses=streams,
            typing=bool(chat.thread_id),
            typing_seconds=60.0,
            buttons=True,
            button_bytes=255,
            attachments_in=True,
            attachments_out=True,
            file_bytes=50 * MIB,
            file_in_bytes=20 * MIB,
            max_text=MAX_TEXT,
            edit_sent=True,
            threads=True,
            groups=True,
            dialect="Markdown",
            chat_seconds=pause,
            account_rate=10.0,
        )

    def render(self, markdown: str, chat: Chat) -> tuple[Rendered, ...]:
        return render(without_mentions(markdown), _DIALECT, MAX_TEXT, takes_files=True)

    def render_beginning(self, markdown: str, chat: Chat, most: int) -> tuple[Rendered, ...]:
        return render(without_mentions(markdown), _DIALECT, MAX_TEXT)[:most]

    async def send(self, message: Outgoing) -> str:
        if message.kind == "press":
            await self._answer_press(message)
            return ""
        if message.file:
            return await self._send_file(message, message.file)
        if message.is_draft and self._streams_in(message.target.chat) and (ts := await self._streams.begin(message)):
            return ts
        fields = {**place_of(message.target), "unfurl_links": False, "unfurl_media": False}
        try:
            return str((await self._call_with_text("chat.postMessage", fields, message))["ts"])
        except SendError as error:
            address = response_url_of(message.target, self.clock())
            if message.is_draft or not address or not _NOT_A_MEMBER & {*error.message.split()}:
                raise
        await self._respond(address, {"text": escaped(message.rendered.text)[:MAX_TEXT], "blocks": blocks_of(message)})
        return ""

    async def edit(self, message: Outgoing, message_id: str) -> None:
        may_stream = message.kind in ("answer", "failure") and self._streams_in(message.target.chat)
        if may_stream and await self._streams.edit(message, message_id):
            return
        await self._call_with_text("chat.update", {"channel": message.target.chat.id, "ts": message_id}, message)

    async def typing(self, target: Target) -> None:
        if not target.chat.thread_id:
            raise Unsupported("Slack shows a state in threads only.")
        fields = {"channel_id": target.chat.id, "thread_ts": target.chat.thread_id, "status": "is thinking…"}
        await self._call("assistant.threads.setStatus", fields)

    async def find_name(self, sender_id: str) -> str:
        user = (await self._call("users.info", {"user": sender_id}, is_form=True)).get("user")
        return name_of(user) if isinstance(user, dict) else ""

    async def check(self) -> Checked:
        me = await self._call("auth.test", {})
        lines = [f"The app is @{me.get('user')} in {me.get('team')} ({me.get('team_id')})."]
        if self.listens:
            await self._open_connection()
            lines.append("Payloads are received over Socket Mode.")
        elif self.account.public_url.startswith("https://"):
            lines.append(f"Enter {self.account.public_url} as Request URL of events, interactivity and commands.")
        else:
            lines.append("Slack cannot reach us: set KOMAND_PUBLIC_URL to an https:// address, or receive to socket.")
        return Checked(tuple(lines), {"team_id": str(me["team_id"]), "bot_user_id": str(me["user_id"])})

    def _streams_in(self, chat: Chat) -> bool:
        """Return whether answers are streamed there: Slack streams in threads only."""
        return self._previews == "stream" and bool(chat.thread_id) and not self._streams.is_refused

    async def _answer_press(self, message: Outgoing) -> None:
        """Show the reply to a button press to the person who pressed it."""
        if url := str(message.target.reference.get("response_url", "")):
            await self._respond(url, {"text": message.rendered.text})

    async def _respond(self, url: str, content: Mapping[str, Any]) -> None:
        """Show a message to one person, who pressed a button or wrote a slash command: the address is theirs."""
        if not self._is_of_slack(url):
            return
        visible = {"response_type": "ephemeral", "replace_original": False}
        response, _ = await post(self.client, url, json={**content, **visible})
        if not response.is_success:
            problem = f"Slack: status {response.status_code} to a reply that one person sees"
            raise SendError(problem, certainty_of(response.status_code))

    async def _send_file(self, message: Outgoing, file: OutgoingFile) -> str:
        """Upload a file in three steps. Before the last one, nobody sees it."""
        wanted = {"filename": file.name, "length": str(len(file.content))}
        try:
            upload = await self._call("files.getUploadURLExternal", wanted, is_form=True)
            if not self._is_of_slack(str(upload["upload_url"])):
                raise SendError("Slack: the address for the file does not belong to Slack", SendCertainty.REFUSED)
            response, _ = await post(self.client, str(upload["upload_url"]), content=file.content)
            if not response.is_success:
                raise SendError(f"Slack: status {response.status_code} to a file", certainty_of(response.status_code))
        except SendError as error:
            if error.certainty is SendCertainty.UNKNOWN:
                error.certainty = SendCertainty.NOT_SENT
            raise
        place = place_of(message.target)
        done = {"files": [{"id": upload["file_id"], "title": file.name}], "channel_id": place.pop("channel"), **place}
        if message.rendered.text:
            done["initial_comment"] = message.rendered.text
        await self._call("files.completeUploadExternal", done)
        return str(upload["file_id"])

    async def _call_with_text(self, method: str, fields: Mapping[str, Any], message: Outgoing) -> Any:
        """Call a method with blocks; if Slack cannot render them, once more with plain text."""
        text, blocks = escaped(message.rendered.text)[:MAX_TEXT] or NO_TEXT, blocks_of(message)
        try:
            return await self._call(method, {**fields, "text": text, "blocks": blocks})
        except SendError as error:
            if error.certainty is not SendCertainty.REFUSED or not _NOT_RENDERED & {*error.message.split()}:
                raise
        return await self._call(method, {**fields, "text": text, "blocks": blocks[1:]})

    async def _call(self, method: str, fields: Mapping[str, Any], *, token: str = "", is_form: bool = False) -> Any:
        headers = {"authorization": f"Bearer {token or self.account.secrets['bot_token']}"}
        if is_form:
            content: dict[str, Any] = {"data": fields}
        else:
            headers["content-type"] = "application/json; charset=utf-8"
            content = {"content": json.dumps(fields, ensure_ascii=False).encode()}
        return await self.call_json("POST", f"{self._base}/{method}", headers=headers, **content)

    def result_of(self, response: httpx2.Response, answer: Any) -> Any:
        """Return an answer whose `ok` is true. An error has status 200, too, and `ok` false."""
        found = as_object(answer)
        if found.get("ok") is True:
            return found
        if "ok" not in found:
            found = {}
            if response.is_success:
                raise self.unreadable()
        code = str(found.get("error") or "error") if found else f"status {response.status_code}"
        certainty = SendCertainty.REFUSED if response.is_success else certainty_of(response.status_code)
        if code in _TRY_AGAIN:
            certainty = SendCertainty.NOT_SENT
        elif code in _IN_DOUBT:
            certainty = SendCertainty.UNKNOWN
        needed = f" (needs the scope {found['needed']})" if found.get("needed") else ""
        raise self.refusal(response, f"{code}{needed}", certainty, ends_account=code in _ENDS_ACCOUNT)

    def _is_of_slack(self, url: str) -> bool:
        """Return whether the token may be sent to an address: one of Slack, or of the configured API."""
        parts, base = urlsplit(url), urlsplit(self._base)
        if base.hostname != "slack.com":
            return (parts.scheme, parts.netloc) == (base.scheme, base.netloc)
        host = parts.hostname or ""
        return parts.scheme == "https" and (host == "slack.com" or host.endswith(".slack.com"))


def _listens(account: AccountSettings) -> bool:
    """Return whether the account receives by Socket Mode: the default without a public address."""
    default = "webhook" if account.public_url.startswith("https://") else "socket"
    return bool(account.config.get("receive", default) == "socket")


def _payload_of(request: WebhookRequest) -> Any:
    """Return the payload: the JSON body, the JSON in a form's field, or the fields of a slash command."""
    if request.is_json:
        return read_json(request)
    form = read_form(request)
    if "payload" in form:
        return parse_json(form["payload"])
    if "command" not in form and "ssl_check" not in form:
        raise NotReadable("The form was not sent by Slack.")
    return form
