"""Discord bots: events arrive over the Gateway, interactions there or at the webhook, and HTTP sends messages.

See https://docs.discord.com/developers/reference.
"""

import hashlib
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import urlsplit

import httpx2
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from audit_app.kernel.errors import InvalidInput
from sessions_app.platforms.account_settings import AccountSettings, Setting
from sessions_app.platforms.adapters.discord.dialect import DiscordMarkdown
from sessions_app.platforms.adapters.discord.events import ASK, COMMAND, COMPONENT, PING, Bot, read_interaction
from sessions_app.platforms.adapters.discord.gateway import Gateway
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
from sessions_app.platforms.http import download
from sessions_app.platforms.json_api import JsonApi, as_object
from sessions_app.platforms.link import Link
from sessions_app.platforms.messages import Attachment, Capabilities, ChannelEvent, Chat, Outgoing, Rendered, Target
from sessions_app.platforms.rendering.renderer import render
from sessions_app.platforms.signatures import is_recent
from sessions_app.platforms.webhook_json import read_object

API = "https://discord.com/api/v10"
MAX_TEXT = 2000
_CHAT_SECONDS = 1.2
_USER_AGENT = "DiscordBot (Komand, 1)"
_FILE_HOSTS = ("cdn.discordapp.com", "media.discordapp.net")
_HIDDEN = 64  # flag of a message that only the person of the interaction sees
_STYLES = {"success": 3, "danger": 4}
_ROW = 5
_DIALECT = DiscordMarkdown()
_DEFERRED_MESSAGE, _DEFERRED_UPDATE = 5, 6
_TEXT_OPTION = 3
_COMMANDS = {
    ASK: "Send a message to the assistant",
    "new": "Start a new conversation",
    "stop": "Stop the current answer",
    "agent": "Show who can answer here, or choose",
    "agents": "List workstreams, or write to one",
    "link": "Link this private chat with your user",
    "unlink": "End the link with your user",
    "status": "Show what the assistant is working on",
    "help": "List the commands",
}
_OPTIONS = {
    ASK: {"type": _TEXT_OPTION, "name": "message", "description": "The message", "required": True},
    "link": {"type": _TEXT_OPTION, "name": "code", "description": "The code of your account page", "required": True},
    "agents": {"type": _TEXT_OPTION, "name": "text", "description": "Number, then a message", "required": False},
    "agent": {"type": _TEXT_OPTION, "name": "name", "description": "The agent, or default", "required": False},
}


class Discord(JsonApi):
    slug = "discord"
    name = "Discord"
    summary = "Gateway, and interactions by webhook"
    setup_guide = read_guide(__file__)
    follows_threads = True
    can_listen = True
    proves_senders = True
    config_fields: ClassVar[Mapping[str, Setting]] = {
        "application_id": Setting("the application's id; set by `channel test`"),
        "public_key": Setting("the application's public key, which verifies interactions; set by `channel test`"),
        "bot_user_id": Setting("the id of the bot's user; set by `channel test`"),
        "known_bots": Setting("ids of other bots that may talk to this one", "ids"),
        "previews": Setting(
            "edit: one message that grows; multi_message: finished texts as messages of their own; none",
            "choice",
            choices=("edit", "multi_message", "none"),
        ),
        "api_url": Setting(f"another API than {API}", "url"),
        "chat_seconds": Setting("shortest time between two messages in a chat, in seconds", "number"),
    }
    secret_fields: ClassVar[Mapping[str, str]] = {"bot_token": "the bot's token, from Bot, Reset Token"}
    required_secrets: ClassVar[Sequence[str]] = ("bot_token",)

    def __init__(self, account: AccountSettings, **options: Any) -> None:
        super().__init__(account, **options)
        config = account.config
        try:
            key = bytes.fromhex(str(config.get("public_key", "")))
            self._public_key = Ed25519PublicKey.from_public_bytes(key) if key else None
        except ValueError:
            raise InvalidInput(
                "Discord: public_key is not an Ed25519 key in hexadecimal.", code="bad_account"
            ) from None
        known_bots = frozenset(map(str, config.get("known_bots", ())))
        application_id, user_id = (str(config.get(name, "")) for name in ("application_id", "bot_user_id"))
        groups = config.get("groups")
        self._bot = Bot(application_id, user_id, groups == "all", known_bots, groups in ("thread", "all"))
        self._base = str(config.get("api_url") or API).rstrip("/")

    # Inbound.

    def verify(self, request: WebhookRequest, now: datetime) -> None:
        timestamp = request.header("x-signature-timestamp")
        if self._public_key is None or not is_recent(timestamp, now):
            raise VerificationFailed
        try:
            signature = bytes.fromhex(request.header("x-signature-ed25519"))
            self._public_key.verify(signature, timestamp.encode() + request.body)
        except (InvalidSignature, ValueError):
            raise VerificationFailed from None

    def parse(self, request: WebhookRequest, now: datetime) -> Sequence[ChannelEvent]:
        return [read_interaction(read_object(request), self._bot)]

    def acknowledge(self, request: WebhookRequest, channel_events: Sequence[ChannelEvent]) -> Acknowledgement:
        response = _response_to(read_object(request))
        return Acknowledgement(200, response) if response else Acknowledgement(202)

    @property
    def listens(self) -> bool:
        return True  # Discord sends messages over the Gateway alone

    async def listen(self, link: Link) -> None:
        token = self.account.secrets["bot_token"]
        await Gateway(self._call, self._respond, token, self._bot).listen(link)

    async def _respond(self, interaction: Any) -> None:
        """Acknowledge an interaction that came over the Gateway: Discord waits three seconds."""
        if response := _response_to(interaction):
            path = f"/interactions/{interaction['id']}/{interaction['token']}/callback"
            await self._call("POST", path, json=response)

    async def fetch(self, file: Attachment, most_bytes: int) -> AsyncGenerator[bytes, None]:
        url = urlsplit(file.url or "")
        if url.hostname not in (*_FILE_HOSTS, urlsplit(self._base).hostname):
            raise FetchError("its address does not belong to Discord", is_final=True)
        async for piece in download(self.client, file.url or "", most_bytes):
            yield piece

    # Outbound.

    def capabilities(self, chat: Chat) -> Capabilities:
        pause = float(self.account.config.get("chat_seconds", _CHAT_SECONDS))
        return Capabilities(
            drafts=self.account.config.get("previews", "edit"),
            draft_seconds=pause,
            typing=True,
            typing_seconds=8.0,
            buttons=True,
            button_bytes=100,
            attachments_in=True,
            attachments_out=True,
            file_bytes=10 * MIB,
            file_in_bytes=20 * MIB,
            max_text=MAX_TEXT,
            edit_sent=True,
            groups=True,
            dialect="Discord Markdown",
            chat_seconds=pause,
            account_rate=40.0,
        )

    def render(self, markdown: str, chat: Chat) -> tuple[Rendered, ...]:
        return render(markdown, _DIALECT, MAX_TEXT, takes_files=True)

    def render_beginning(self, markdown: str, chat: Chat, most: int) -> tuple[Rendered, ...]:
        return render(markdown, _DIALECT, MAX_TEXT)[:most]

    async def send(self, message: Outgoing) -> str:
        if message.kind == "press":
            await self._answer_press(message)
            return ""
        token = str(message.target.reference.get("token", ""))
        # Each message in place of "thinking" replaces the one before, which must not be a prompt to be decided.
        is_last = message.kind not in ("step", "approval") and not message.buttons
        if token and message.part == 0 and is_last and not message.file:
            try:  # in place of "thinking"
                path = f"/webhooks/{self._bot.application_id}/{token}/messages/@original"
                return str((await self._call("PATCH", path, json=_content(message)))["id"])
            except SendError as error:  # the token has expired
                if error.certainty is not SendCertainty.REFUSED or error.ends_account:
                    raise
        path, fields = f"/channels/{message.target.chat.id}/messages", _content(message)
        # Discord drops a second message with the same nonce for some minutes.
        fields |= {"nonce": hashlib.sha256(message.key.encode()).hexdigest()[:24], "enforce_nonce": True}
        target = message.target
        if target.chat.type != "direct" and target.reply_to.isdecimal() and message.part == 0:
            fields["message_reference"] = {"message_id": target.reply_to, "fail_if_not_exists": False}
        if message.file is None:
            return str((await self._call("POST", path, json=fields))["id"])
        file = message.file
        form = {"payload_json": json.dumps({**fields, "attachments": [{"id": 0, "filename": file.name}]})}
        files = {"files[0]": (file.name, file.content, file.media_type)}
        return str((await self._call("POST", path, data=form, files=files))["id"])

    async def edit(self, message: Outgoing, message_id: str) -> None:
        path = f"/channels/{message.target.chat.id}/messages/{message_id}"
        await self._call("PATCH", path, json=_content(message))

    async def typing(self, target: Target) -> None:
        await self._call("POST", f"/channels/{target.chat.id}/typing")

    async def check(self) -> Checked:
        me, app = await self._call("GET", "/users/@me"), await self._call("GET", "/applications/@me")
        commands = [_command(name, text) for name, text in _COMMANDS.items()]
        await self._call("PUT", f"/applications/{app['id']}/commands", json=commands)
        invitation = f"https://discord.com/oauth2/authorize?client_id={app['id']}&scope=bot+applications.commands"
        lines = (
            f"The bot is @{me.get('username')} ({me['id']}). Its commands are registered.",
            f"Invite it to a server: {invitation}&permissions=274878024768",
        )
        learned = {"application_id": str(app["id"]), "bot_user_id": str(me["id"])}
        return Checked(lines, {**learned, "public_key": str(app["verify_key"])})

    async def _answer_press(self, message: Outgoing) -> None:
        """Show the reply to a button press to the person who pressed it."""
        path = f"/webhooks/{self._bot.application_id}/{message.target.reference.get('token', '')}"
        fields = {"content": message.rendered.text[:MAX_TEXT], "flags": _HIDDEN, "allowed_mentions": {"parse": []}}
        await self._call("POST", path, json=fields)

    async def _call(self, method: str, path: str, **content: Any) -> Any:
        headers = {"authorization": f"Bot {self.account.secrets['bot_token']}", "user-agent": _USER_AGENT}
        return await self.call_json(method, self._base + path, headers=headers, **content)

    def result_of(self, response: httpx2.Response, answer: Any) -> Any:
        """Return the JSON of an answer, None for an empty one."""
        if response.is_success:
            return answer
        problem, status = as_object(answer), response.status_code
        raise self.refusal(
            response,
            f"{problem.get('message') or f'status {status}'} ({problem.get('code', status)})",
            retry_after_seconds=float(problem.get("retry_after") or 0),
            slows_account=bool(problem.get("global")),
            ends_account=status == 401,
        )


def _response_to(interaction: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the response that acknowledges an interaction, None for one that needs none."""
    match interaction.get("type"):
        case kind if kind == PING:
            return {"type": PING}
        case kind if kind == COMMAND:
            return {"type": _DEFERRED_MESSAGE}
        case kind if kind == COMPONENT:
            return {"type": _DEFERRED_UPDATE}
    return None


def _content(message: Outgoing) -> dict[str, Any]:
    """Return the content of a message. Nothing in it notifies anybody, and links have no preview."""
    buttons = [
        {"type": 2, "style": _STYLES.get(button.style, 2), "label": button.label[:80], "custom_id": button.action_id}
        for button in message.buttons
    ]
    rows = [{"type": 1, "components": buttons[first : first + _ROW]} for first in range(0, len(buttons), _ROW)]
    mentions = {"parse": [], "replied_user": False}
    body = message.rendered.text if message.file else message.rendered.body
    return {"content": body, "components": rows, "allowed_mentions": mentions, "flags": 4}


def _command(name: str, description: str) -> dict[str, Any]:
    """Return a command to register. Those of `_OPTIONS` take a text."""
    return {"name": name, "description": description, **({"options": [_OPTIONS[name]]} if name in _OPTIONS else {})}
