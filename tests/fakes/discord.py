"""A fake of Discord's HTTP API and Gateway over real HTTP and WebSocket, which checks tokens and limits."""

import asyncio
import json
import time
from contextlib import suppress
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from websockets.asyncio.server import ServerConnection

from tests.fakes.http_protocol import HttpRequest
from tests.fakes.http_server import FakeServer, Fault
from tests.fakes.socket_server import SocketServer

TOKEN = "bot-token-secret"
APPLICATION_ID, BOT_USER, CHANNEL = "900", "901", "700"
_KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
PUBLIC_KEY = _KEY.public_key().public_bytes_raw().hex()
_JSON = {"content-type": "application/json"}
_MOST_TEXT = 2000


def signed_headers(body: bytes, *, at: float | None = None) -> dict[str, str]:
    """Return the headers of a request of Discord."""
    timestamp = str(int(time.time() if at is None else at))
    signature = _KEY.sign(timestamp.encode() + body).hex()
    return {"content-type": "application/json", "x-signature-timestamp": timestamp, "x-signature-ed25519": signature}


def user(number: str = "501", name: str = "zoe", **extra: Any) -> dict[str, Any]:
    return {"id": number, "username": name, "global_name": "Zoë", **extra}


def message_event(number: int, text: str, *, channel: str = CHANNEL, **extra: Any) -> dict[str, Any]:
    """Return the data of MESSAGE_CREATE, by default of a message to the bot alone."""
    fields = {"id": str(10**17 + number), "channel_id": channel, "author": user(), "content": text, "type": 0}
    return {**fields, "attachments": [], "mentions": [], **extra}


def ask_interaction(number: int, text: str, **extra: Any) -> dict[str, Any]:
    """Return the slash command /ask, by default in the conversation with the bot."""
    options = [{"name": "message", "type": 3, "value": text}]
    return interaction(number, 2, data={"id": "1", "name": "ask", "options": options}, **extra)


def press_interaction(number: int, custom_id: str, message_id: str) -> dict[str, Any]:
    return interaction(number, 3, data={"custom_id": custom_id}, message={"id": message_id})


def interaction(number: int, kind: int, **extra: Any) -> dict[str, Any]:
    place = {"channel_id": CHANNEL, "context": 1, "user": user()}
    names = {"id": str(10**17 + number), "application_id": APPLICATION_ID, "token": f"token-{number}"}
    return {**names, "type": kind, **place, **extra}


class FakeDiscord(FakeServer):
    """Discord.

    calls: method and path of each request. messages: the texts that are shown, by channel and id. buttons: label and
    custom id, by message. thinking: tokens of commands that are not answered; originals: the messages in their place.
    hidden: replies that one person sees.
    files: contents to download; uploads: those that were sent. responses: to interactions of the Gateway.
    events: what the Gateway has sent, by number. close_code: with which it refuses to begin. is_deaf: it acknowledges
    no heartbeats. resumed: how often a session was resumed. token: the valid one.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.calls: list[tuple[str, str]] = []
        self.messages: dict[str, dict[str, str]] = {}
        self.bodies: list[dict[str, Any]] = []
        self.buttons: dict[str, dict[str, str]] = {}
        self.thinking: set[str] = set()
        self.originals: dict[str, str] = {}
        self.hidden: list[str] = []
        self.files: dict[str, bytes] = {}
        self.uploads: list[bytes] = []
        self.commands: list[dict[str, Any]] = []
        self.responses: dict[str, int] = {}
        self.nonces: dict[str, str] = {}
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.identified: list[dict[str, Any]] = []
        self.resumed = 0
        self.close_code = 0
        self.is_deaf = False
        self.heartbeat_ms = 10_000
        self.starts_left = 1000
        self.token = TOKEN
        self.socket = SocketServer(self._serve_socket)

    def __enter__(self) -> "FakeDiscord":
        self.socket.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.socket.__exit__(*error)

    def shown(self, channel: str = CHANNEL) -> list[str]:
        """Return the texts that a channel shows, oldest first."""
        return list(self.messages.get(channel, {}).values())

    def queue(self, data: dict[str, Any], kind: str = "MESSAGE_CREATE") -> None:
        """Have the Gateway send an event."""
        self.events.append((kind, data))

    def refuse(self, fault: Fault) -> tuple[int, dict[str, str], bytes]:
        if fault.status == 429:
            body = {"message": "You are being rate limited.", "retry_after": float(fault.retry_after), "global": False}
            return 429, _JSON, json.dumps(body).encode()
        return self._problem(fault.status, "Missing Permissions", 50013)

    def take(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes]:
        path = request.path
        if path.startswith("/files/"):
            content = self.files.get(path.removeprefix("/files/"))
            return (404, {}, b"") if content is None else (200, {"content-type": "application/octet-stream"}, content)
        path = path.removeprefix("/api/v10")
        if request.headers.get("authorization") != f"Bot {self.token}":
            return self._problem(401, "401: Unauthorized", 0)
        if not request.headers.get("user-agent", "").startswith("DiscordBot ("):
            return self._problem(403, "a user agent is required", 0)
        self.calls.append((request.method, path))
        match [request.method, *path.strip("/").split("/")]:
            case ["GET", "gateway", "bot"]:
                limit = {"remaining": self.starts_left, "reset_after": 300_000}
                return self._success({"url": self.socket.url, "session_start_limit": limit})
            case ["GET", "users", "@me"]:
                return self._success(user(BOT_USER, "komand"))
            case ["GET", "guilds", _, "roles"]:
                return self._success([{"id": "77", "tags": {"bot_id": BOT_USER}}, {"id": "78"}])
            case ["GET", "applications", "@me"]:
                return self._success({"id": APPLICATION_ID, "verify_key": PUBLIC_KEY})
            case ["PUT", "applications", _, "commands"]:
                self.commands = json.loads(request.body)
                return self._success(self.commands)
            case ["POST", "interactions", _, token, "callback"]:
                return self._take_response(token, json.loads(request.body)["type"])
            case ["POST", "webhooks", _, _]:
                self.hidden.append(json.loads(request.body)["content"])
                return self._success({"id": "1"})
            case ["PATCH", "webhooks", _, token, "messages", "@original"]:
                return self._show_original(token, json.loads(request.body))
            case ["POST", "channels", _, "typing"]:
                return 204, {}, b""
            case ["POST", "channels", channel, "messages"]:
                return self._take_message(channel, request)
            case ["PATCH", "channels", channel, "messages", message_id]:
                if message_id not in self.messages.get(channel, {}):
                    return self._problem(404, "Unknown Message", 10008)
                return self._show(channel, message_id, json.loads(request.body))
        return self._problem(404, "404: Not Found", 0)

    def _show_original(self, token: str, fields: dict[str, Any]) -> Any:
        """Show a message in place of "thinking", or of the message that took its place before."""
        if token in self.thinking:
            self.thinking.discard(token)
            self.originals[token] = self._new_id()
        if token not in self.originals:
            return self._problem(404, "Unknown Webhook", 10015)
        return self._show(CHANNEL, self.originals[token], fields)

    def _take_response(self, token: str, kind: int) -> Any:
        self.responses[token] = kind
        if kind == 5:
            self.thinking.add(token)
        return 204, {}, b""

    def _take_message(self, channel: str, request: HttpRequest) -> Any:
        if request.headers["content-type"].startswith("multipart/"):
            self.uploads.append(request.body)
            return self._success({"id": self._new_id()})
        fields = json.loads(request.body)
        if known := self.nonces.get(fields.get("nonce", "")):
            return self._success({"id": known})
        message_id = self._new_id()
        if fields.get("enforce_nonce"):
            self.nonces[fields["nonce"]] = message_id
        return self._show(channel, message_id, fields)

    def _new_id(self) -> str:
        return str(10**18 + len(self.calls))

    def _show(self, channel: str, message_id: str, fields: dict[str, Any]) -> Any:
        keys = [key for row in fields.get("components", ()) for key in row["components"]]
        if not 1 <= len(fields["content"]) <= _MOST_TEXT or fields["allowed_mentions"]["parse"]:
            return self._problem(400, "Invalid Form Body", 50035)
        if any(not 1 <= len(key["custom_id"]) <= 100 or len(key["label"]) > 80 for key in keys):
            return self._problem(400, "Invalid Form Body", 50035)
        self.bodies.append(fields)
        self.messages.setdefault(channel, {})[message_id] = fields["content"]
        self.buttons[message_id] = {key["label"]: key["custom_id"] for key in keys}
        return self._success({"id": message_id})

    @staticmethod
    def _success(value: Any) -> tuple[int, dict[str, str], bytes]:
        return 200, _JSON, json.dumps(value).encode()

    @staticmethod
    def _problem(status: int, message: str, code: int) -> tuple[int, dict[str, str], bytes]:
        return status, _JSON, json.dumps({"message": message, "code": code}).encode()

    async def _serve_socket(self, connection: ServerConnection) -> None:
        """Greet, begin or resume a session, then send events and acknowledge heartbeats."""
        await connection.send(json.dumps({"op": 10, "d": {"heartbeat_interval": self.heartbeat_ms}}))
        greeting = json.loads(await connection.recv())
        while greeting["op"] == 1:
            greeting = json.loads(await connection.recv())
        if self.close_code or greeting["d"]["token"] != self.token:
            await connection.close(self.close_code or 4004)
            return
        if greeting["op"] == 2:
            number = len(self.events) if self.identified else 0
            self.identified.append(greeting["d"])
            ready = {"session_id": "s-1", "resume_gateway_url": self.socket.url, "user": {"id": BOT_USER}}
            await connection.send(json.dumps({"op": 0, "t": "READY", "s": number, "d": ready}))
        else:
            number = greeting["d"]["seq"]
            self.resumed += 1
        while True:
            for kind, data in self.events[number:]:
                number += 1
                await connection.send(json.dumps({"op": 0, "t": kind, "s": number, "d": data}))
            with suppress(TimeoutError):
                async with asyncio.timeout(0.02):
                    if json.loads(await connection.recv())["op"] == 1 and not self.is_deaf:
                        await connection.send('{"op": 11}')
