"""A page that follows a session over its WebSocket, without a browser."""

import asyncio
import contextlib
import json
from typing import Any

from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from komand.websocket_origins import OriginCheck
from sessions_app.models import Session
from sessions_app.surfaces.chat import consumers
from tests.integration.sessions_app.surfaces.chat.page_model import PageModel

APPLICATION = OriginCheck(URLRouter(consumers.routes))
OURS = {"host": "localhost", "origin": "http://localhost"}


def cookie_of(user: User) -> str:
    client = Client()
    client.force_login(user)
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


class Tab:
    """A page that follows one session. close_code: set once the server has closed the connection."""

    def __init__(self, session: Session, cookie: str = "", cursor: str = "", **headers: str) -> None:
        sent = {**OURS, **({"cookie": cookie} if cookie else {}), **headers}
        fields = [(name.encode(), value.encode()) for name, value in sent.items()]
        self.socket = WebsocketCommunicator(APPLICATION, f"/ws/chat/{session.id}?cursor={cursor}", headers=fields)
        self.page = PageModel(cursor)
        self.close_code: int | None = None

    async def __aenter__(self) -> "Tab":
        self.accepted, self.refused = await self.socket.connect(timeout=60)
        return self

    async def __aexit__(self, *error: object) -> None:
        with contextlib.suppress(Exception):
            await self.socket.disconnect(timeout=60)

    async def receive(self, seconds: float = 60) -> dict[str, Any] | None:
        """Apply the next message to the page and return it, None if the server closed."""
        output = await self.socket.receive_output(seconds)
        if output["type"] == "websocket.close":
            self.close_code = output["code"]
            return None
        message: dict[str, Any] = json.loads(output["text"])
        self.page.apply(message)
        return message

    async def until(self, what: str, seconds: float = 60) -> list[dict[str, Any]]:
        """Return all messages until one with a frame of that name."""
        messages = []
        async with asyncio.timeout(seconds):
            while True:
                message = await self.receive(seconds)
                assert message is not None, f"closed with {self.close_code}"
                messages.append(message)
                if any(act["do"] == what for act in message.get("acts", ())):
                    return messages
