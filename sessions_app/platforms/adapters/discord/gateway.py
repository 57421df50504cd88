"""Discord's Gateway (https://docs.discord.com/developers/events/gateway): events over a WebSocket that we open.

The cursor is the Gateway's session with the number of the last event: with it, Discord repeats what was missed.
"""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from sessions_app.platforms.adapters.discord.events import Bot, read_event
from sessions_app.platforms.base import SendError
from sessions_app.platforms.link import ConnectionLost, CredentialsRefused, Link, NeedsAttention, Received
from sessions_app.platforms.messages import Ignored
from sessions_app.platforms.web_socket import open_socket, read_messages

_DISPATCH, _BEAT, _IDENTIFY, _RESUME, _RECONNECT, _INVALID, _HELLO, _ACKNOWLEDGED = 0, 1, 2, 6, 7, 9, 10, 11
# Servers, their messages and reactions, those of direct chats.
_INTENTS = 1 << 0 | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 13
_CONTENT_INTENT = 1 << 15
# Any other code than 1000 and 1001 keeps the session, so that it can be resumed.
_KEEPS_SESSION = 4000
_LOST_SESSION = (4007, 4009)
_REMEDIES = {
    4013: "The gateway requests events that Discord does not know: update Komand.",
    4014: "Switch the Message Content Intent on (discord.com/developers, your application, Bot), or set groups back.",
    4010: "Discord wants several connections for this bot, which is in too many servers for this gateway.",
    4011: "Discord wants several connections for this bot, which is in too many servers for this gateway.",
    4012: "Discord no longer supports this version of its API: update Komand.",
}


@dataclass(frozen=True)
class _Session:
    """A session of the Gateway. url: at which it is resumed."""

    id: str = ""
    url: str = ""
    number: int | None = None
    user_id: str = ""

    @classmethod
    def read(cls, cursor: str) -> "_Session":
        with suppress(ValueError, TypeError):
            return cls(**json.loads(cursor))
        return cls()


class Gateway:
    """One connection.

    call: requests a path of the HTTP API.
    respond: acknowledges an interaction.
    """

    def __init__(
        self, call: Callable[..., Awaitable[Any]], respond: Callable[[Any], Awaitable[None]], token: str, bot: Bot
    ) -> None:
        self._call, self._respond, self._token, self._bot = call, respond, token, bot
        self._session = _Session()
        self._servers: set[str] = set()  # whose roles are known
        self._is_acknowledged = True

    async def listen(self, link: Link) -> None:
        """Receive events until cancelled. Raises ConnectionLost, NeedsAttention, CredentialsRefused."""
        self._session = _Session.read(link.cursor)
        if self._session.user_id:  # a session that is resumed does not begin with READY
            self._bot = replace(self._bot, user_id=self._session.user_id)
        url = self._session.url or await self._find_url()
        is_open = False
        try:
            async with open_socket(f"{url}/?v=10&encoding=json") as socket:
                is_open = True
                await self._serve(socket, link)
        except ConnectionLost:
            if self._session.url and not is_open:  # that server may be gone: resume at the common address
                self._session = replace(self._session, url="")
                await link.deliver([], self._cursor)
            raise

    async def _serve(self, socket: ClientConnection, link: Link) -> None:
        """Receive events until the connection ends. Raises its reason."""
        try:
            await self._receive(socket, link)
        except ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd else 0
            if code in _LOST_SESSION:
                await link.deliver([], "")
            raise _reason(code) from None
        finally:
            with suppress(Exception):
                await socket.close(_KEEPS_SESSION)

    async def _find_url(self) -> str:
        try:
            found = await self._call("GET", "/gateway/bot")
        except SendError as error:
            if error.ends_account:
                raise _reason(4004) from None
            raise ConnectionLost(error.message, retry_after_seconds=error.retry_after_seconds or 0.0) from None
        limit = found.get("session_start_limit") or {}
        if limit.get("remaining", 1) < 1:  # Discord would make the token invalid
            problem = "Discord allows no further connection today."
            raise ConnectionLost(problem, retry_after_seconds=float(limit.get("reset_after", 0)) / 1000)
        return str(found["url"]).rstrip("/")

    async def _receive(self, socket: ClientConnection, link: Link) -> None:
        async with aclosing(read_messages(socket, link)) as messages:
            hello = await anext(messages)
            beating = asyncio.create_task(self._beat(socket, float(hello["d"]["heartbeat_interval"]) / 1000))
            try:
                await socket.send(json.dumps(self._greeting()))
                async for message in messages:
                    await self._handle(message, socket, link)
            finally:
                beating.cancel()
                await asyncio.gather(beating, return_exceptions=True)

    async def _beat(self, socket: ClientConnection, seconds: float) -> None:
        """Send heartbeats. Without an answer to the last one, the connection is closed, which ends the reading."""
        await asyncio.sleep(seconds * random.random())  # noqa: S311 - spreads load, guards nothing
        while True:
            if not self._is_acknowledged:
                await socket.close(_KEEPS_SESSION)
                return
            self._is_acknowledged = False
            await socket.send(json.dumps({"op": _BEAT, "d": self._session.number}))
            await asyncio.sleep(seconds)

    def _greeting(self) -> dict[str, Any]:
        if self._session.id:
            data = {"token": self._token, "session_id": self._session.id, "seq": self._session.number}
            return {"op": _RESUME, "d": data}
        intents = _INTENTS | (_CONTENT_INTENT if self._bot.reads_content else 0)
        properties = {"os": "linux", "browser": "komand", "device": "komand"}
        return {"op": _IDENTIFY, "d": {"token": self._token, "intents": intents, "properties": properties}}

    async def _handle(self, message: Any, socket: ClientConnection, link: Link) -> None:
        match message.get("op"):
            case 0:
                await self._dispatch(message, link)
            case 1:
                await socket.send(json.dumps({"op": _BEAT, "d": self._session.number}))
            case 7:
                raise ConnectionLost("Discord asks for a new connection.")
            case 9:
                if not message.get("d"):
                    await link.deliver([], "")
                raise ConnectionLost("Discord has ended the session.", retry_after_seconds=random.uniform(1, 5))  # noqa: S311
            case 11:
                self._is_acknowledged = True

    async def _dispatch(self, message: Any, link: Link) -> None:
        kind, data = str(message.get("t")), message.get("d")
        if isinstance(message.get("s"), int):
            self._session = replace(self._session, number=message["s"])
        if kind == "READY":
            url = str(data.get("resume_gateway_url") or "").rstrip("/")
            user_id = str(data["user"]["id"])
            self._session = replace(self._session, id=str(data["session_id"]), url=url, user_id=user_id)
            self._bot = replace(self._bot, user_id=user_id)
            await link.deliver([], self._cursor)
            return
        if kind == "MESSAGE_CREATE" and data.get("mention_roles") and data.get("guild_id"):
            await self._learn_roles(str(data["guild_id"]))
        event = read_event(kind, data, self._bot)
        if isinstance(event, Ignored):
            return  # the number is stored with the next event: repeating these has no effect
        await link.deliver([Received(event, json.dumps(data).encode())], self._cursor)
        if kind == "INTERACTION_CREATE":
            with suppress(SendError):
                await self._respond(data)

    async def _learn_roles(self, server_id: str) -> None:
        """Find the role that a server gave our bot as its own, once a connection. After an error, ask the next time."""
        if server_id in self._servers:
            return
        with suppress(SendError):
            roles = await self._call("GET", f"/guilds/{server_id}/roles")
            own = {str(role["id"]) for role in roles if (role.get("tags") or {}).get("bot_id") == self._bot.user_id}
            self._bot = replace(self._bot, role_ids=self._bot.role_ids | own)
            self._servers.add(server_id)

    @property
    def _cursor(self) -> str:
        return json.dumps(asdict(self._session))


def _reason(code: int) -> ConnectionLost | NeedsAttention:
    """Return what the code means with which Discord closed the connection."""
    if code == 4004:
        return CredentialsRefused("Discord refuses the bot_token: reset it under Bot at discord.com/developers.")
    if code in _REMEDIES:
        return NeedsAttention(_REMEDIES[code])
    return ConnectionLost(f"Discord closed the connection ({code or 'without a close frame'}).")
