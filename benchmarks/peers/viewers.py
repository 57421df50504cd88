"""Viewers of the peers: the protocol of each one's page or client, with the tally of all benchmarks."""

import asyncio
import json
import time
from uuid import uuid4

from benchmarks.viewers import Viewer
from benchmarks.websocket import WebSocket
from benchmarks.wire import Address, post_json, stream_json


class ChainlitViewer(Viewer):
    """Chainlit's page: Socket.IO 4 over a WebSocket."""

    def __init__(self, address: Address) -> None:
        self._address = address

    async def open(self) -> None:
        self._is_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        path = "/ws/socket.io/?EIO=4&transport=websocket"
        self._socket = await WebSocket.open(self._address, path, {"origin": self._address.url}, self._on_text)
        self._socket.send_text(b"40" + json.dumps({"sessionId": str(uuid4()), "clientType": "webapp"}).encode())
        async with asyncio.timeout(60):
            await self._is_open
        self._emit("connection_successful")

    async def send(self, text: str) -> None:
        message = {"id": str(uuid4()), "type": "user_message", "output": text, "createdAt": "2026-01-01T00:00:00Z"}
        self._emit("client_message", {"message": message, "fileReferences": []})

    def _emit(self, *event: object) -> None:
        assert self._socket is not None
        self._socket.send_text(b"42" + json.dumps(event).encode())

    def _on_text(self, text: bytes, at: float) -> None:
        if text == b"2" and self._socket:  # a ping
            self._socket.send_text(b"3")
        elif text.startswith(b"40"):
            self._is_open.set_result(None)
        else:
            super()._on_text(text, at)


class LangGraphViewer(Viewer):
    """A client of LangGraph's API with a thread of its own: each message is a run, streamed as server-sent events."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._thread = ""

    async def open(self) -> None:
        answer = await post_json(self._address, "/threads", {}, {})
        self._thread = json.loads(answer.body)["thread_id"]

    async def send(self, text: str) -> None:
        body = {"assistant_id": "answer", "input": {"text": text}, "stream_mode": ["custom"]}
        rest = b""
        async for received in stream_json(self._address, f"/threads/{self._thread}/runs/stream", body):
            lines, _, rest = (rest + received).rpartition(b"\n")
            self._on_text(lines, time.monotonic())
