"""A caller of the agent-message protocol without a server: requests to the views, and streams over ASGI."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import User
from django.test import Client

from sessions_app.identity import access_tokens
from sessions_app.surfaces.agent_messages.consumers import MessageSocket, routes
from sessions_app.surfaces.agent_messages.wire_format import AgentMessageType, Compact

TURN_ENDS = (
    AgentMessageType.COMPLETE,
    AgentMessageType.IDLE,
    AgentMessageType.REQUEST_INPUT,
    AgentMessageType.TERMINATED,
)
_HTTP = URLRouter([route for route in routes if route.callback.consumer_class is not MessageSocket])
_SOCKETS = URLRouter([route for route in routes if route.callback.consumer_class is MessageSocket])


@dataclass(frozen=True)
class Answer:
    status: int
    data: Any
    headers: dict[str, str]


class AgentCaller:
    """Requests of one user. Paths are below /api/v1/, or absolute."""

    def __init__(self, user: User | None = None, *, bearer: str = "") -> None:
        self.bearer = bearer or (access_tokens.open_login(user).access if user else "")
        self._client = Client(enforce_csrf_checks=True, raise_request_exception=False)

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a request. body: a JSON value, or raw bytes."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        content_type = sent.pop("Content-Type", "application/json" if data else "")
        if self.bearer:
            sent.setdefault("Authorization", f"Bearer {self.bearer}")
        if path.startswith("http"):
            parts = urlsplit(path)
            path, _ = f"{parts.path}?{parts.query}", sent.pop("Authorization", "")
        path = path if path.startswith("/") else f"/api/v1/{path}"
        response = self._client.generic(method, path, data, content_type=content_type, headers=sent)
        is_json = response.headers.get("Content-Type", "").startswith("application/json")
        content = response.content
        if response.headers.get("Content-Encoding"):
            return Answer(response.status_code, content, dict(response.headers))
        found = json.loads(content) if is_json and content else content
        return Answer(response.status_code, found, dict(response.headers))

    def start(self, text: str, **more: Any) -> Any:
        answer = self("POST", "agents", {"interaction": "default", "data": {"task": text}, "interactive": True, **more})
        assert answer.status == 200, answer
        return answer.data

    def send(self, run_id: str, text: str, ack: str = "", **metadata: Any) -> Answer:
        body = {"message": text, "client_message_id": ack, "metadata": metadata}
        return self("POST", f"agents/{run_id}/signal/UserInput", body)

    def messages(self, run_id: str, query: str = "") -> list[Compact]:
        found: list[Compact] = self("GET", f"agents/{run_id}/updates{query}").data["messages"]
        return found

    @asynccontextmanager
    async def stream(self, path: str, query: str = "", **headers: str) -> AsyncIterator["Stream"]:
        stream = Stream(path, f"access_token={self.bearer}&{query}", headers)
        try:
            yield stream
        finally:
            await stream.leave()

    @asynccontextmanager
    async def socket(self, run_id: str, query: str = "") -> AsyncIterator[WebsocketCommunicator]:
        address = f"/api/v1/workflows/runs/agent-{run_id}/{run_id}/ws?access_token={self.bearer}&{query}"
        socket = WebsocketCommunicator(_SOCKETS, address, headers=[(b"host", b"localhost")])
        accepted, _ = await socket.connect(timeout=60)
        assert accepted
        try:
            yield socket
        finally:
            await socket.disconnect(timeout=60)


class Stream:
    """One open event stream. status: of the response, 0 before it has begun."""

    def __init__(self, path: str, query: str, headers: dict[str, str]) -> None:
        self.status, self.seen, self.comments, self.ids = 0, [], [], []  # type: ignore[var-annotated]
        self.headers: dict[str, str] = {}
        self.body = b""
        self._events: asyncio.Queue[Any] = asyncio.Queue()
        self._left, self._begun = asyncio.Event(), asyncio.Event()
        sent = {"host": "localhost", **{name.replace("_", "-").lower(): value for name, value in headers.items()}}
        scope = {
            "type": "http",
            "method": "GET",
            "path": f"/api/v1/{path}",
            "query_string": query.encode(),
            "scheme": "http",
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
            "root_path": "",
            "client": ("127.0.0.1", 5),
            "server": ("localhost", 80),
            "http_version": "1.1",
        }
        self._task = asyncio.create_task(_HTTP(scope, self._receive, self._send))

    async def until(self, *kinds: int, count: int = 1, seconds: float = 60) -> list[Compact]:
        """Return all messages so far, once there are `count` of these types or the stream has ended."""
        return await self.until_true(lambda seen: sum(message["t"] in kinds for message in seen) >= count, seconds)

    async def until_true(self, is_enough: Callable[[list[Compact]], bool], seconds: float = 60) -> list[Compact]:
        async with asyncio.timeout(seconds):
            while not is_enough(self.seen):
                event = await self._events.get()
                if event is None:
                    break
                self.seen.append(event)
        return self.seen

    async def begun(self, seconds: float = 60) -> None:
        """Wait until the response has begun: later events are sent."""
        async with asyncio.timeout(seconds):
            await self._begun.wait()

    async def ended(self, seconds: float = 60) -> list[Compact]:
        return await self.until(-1, seconds=seconds)

    async def leave(self) -> None:
        self._left.set()
        await asyncio.wait_for(self._task, 60)

    async def _receive(self) -> dict[str, Any]:
        if not self.status and not getattr(self, "_asked", False):
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            self._begun.set()
            return
        self.body += message.get("body", b"")
        for block in message.get("body", b"").decode().split("\n\n"):
            self._read(block)
        if not message.get("more_body"):
            await self._events.put(None)

    def _read(self, block: str) -> None:
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":"))
        if block.startswith(":"):
            self.comments.append(block)
        elif "data" in fields and "event" not in fields:
            self.ids.append(fields.get("id", ""))
            self._events.put_nowait(json.loads(fields["data"]))
