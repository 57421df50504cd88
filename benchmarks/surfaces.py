"""Viewers of the surfaces other than the chat page: the same sessions and messages over other protocols.

They send messages by REST, so that only the path of a token from the model to the client differs; in protocols whose
request is answered by its stream, and in ZeroClaw's chat, messages go the way of the protocol.
"""

import asyncio
import json
import time
from abc import abstractmethod
from contextlib import suppress
from typing import Any

from benchmarks.installation import Installation
from benchmarks.viewers import GatewayViewer, Tally
from benchmarks.websocket import WebSocket
from benchmarks.wire import Refused, head, parse_head

_READ_BYTES = 65536
_END_OF_RECORD = "\x1e"


class HubViewer(GatewayViewer):
    """A client of the SignalR hub that follows one session, over a WebSocket without negotiation."""

    async def open(self) -> None:
        self._socket = await WebSocket.open(self.address, "/hubs/chat", self.api_headers, self._on_text)
        resume = {"type": 1, "invocationId": "0", "target": "Resume", "arguments": [self.session_id]}
        for record in ({"protocol": "json", "version": 1}, resume):
            self._socket.send_text((json.dumps(record) + _END_OF_RECORD).encode())


class StreamViewer(GatewayViewer):
    """A client of server-sent events."""

    _writer: asyncio.StreamWriter | None = None
    _reading: asyncio.Task[None] | None = None

    def close(self) -> None:
        if self._reading:
            self._reading.cancel()
        if self._writer:
            self._writer.close()

    async def _begin(self, method: str, path: str, body: bytes = b"") -> None:
        """Send the request and read the answer in a task. Raises Refused, OSError."""
        headers = {
            **self.api_headers,
            "content-type": "application/json",
            "accept": "text/event-stream",
            "connection": "close",
        }
        reader, self._writer = await asyncio.open_connection(self.address.host, self.address.port)
        self._writer.write(head(self.address, method, path, headers, len(body)) + body)
        status, _ = parse_head(await reader.readuntil(b"\r\n\r\n"))
        if status != 200:
            raise Refused(f"{path} answers {status}: {(await reader.read(300))!r}")
        self._reading = asyncio.create_task(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while received := await reader.read(_READ_BYTES):
                self._on_text(received, time.monotonic())


class _WatchingStream(StreamViewer):
    """A stream of a session by its URL."""

    async def open(self) -> None:
        await self._begin("GET", self.stream_path())

    @abstractmethod
    def stream_path(self) -> str: ...


class ThreadViewer(_WatchingStream):
    def stream_path(self) -> str:
        return f"/v1/threads/{self.session_id}/stream"


class AgentRunViewer(_WatchingStream):
    def stream_path(self) -> str:
        return f"/api/v1/agents/{self.session_id}/stream"


class CompletionViewer(StreamViewer):
    """A client of OpenAI's chat completions."""

    question_path = "/v1/chat/completions"

    async def open(self) -> None:
        """Do nothing: the message opens the stream."""

    async def send(self, text: str) -> None:
        await self._begin("POST", self.question_path, json.dumps(self._question(text)).encode())

    async def ask(self, tokens: int, seconds: float) -> Tally:
        """Send a message and read to the end of the stream: leaving before would cancel the run."""
        tally = await super().ask(tokens, seconds)
        if self._reading:
            async with asyncio.timeout(seconds):
                await self._reading
        return tally

    def _question(self, text: str) -> dict[str, Any]:
        asked = {"messages": [{"role": "user", "content": text}]}
        return {"model": "default", "stream": True, "metadata": {"session_id": self.session_id}, **asked}


class ResponseViewer(CompletionViewer):
    """A client of OpenAI's responses."""

    question_path = "/v1/responses"

    def _question(self, text: str) -> dict[str, Any]:
        return {"model": "default", "stream": True, "metadata": {"session_id": self.session_id}, "input": text}


class AgUiViewer(CompletionViewer):
    """A client of AG-UI, in a thread of its own."""

    question_path = "/ag-ui/agents/default"

    def _question(self, text: str) -> dict[str, Any]:
        message = {"id": "1", "role": "user", "content": text}
        empty: dict[str, Any] = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
        return {"threadId": self.session_id, "runId": self.session_id, "messages": [message], **empty}


class TaskViewer(CompletionViewer):
    """A client of A2A, with a task of its own."""

    question_path = "/a2a/default/message:stream?A2A-Version=1.0"

    def _question(self, text: str) -> dict[str, Any]:
        return {"message": {"messageId": self.session_id, "role": "ROLE_USER", "parts": [{"text": text}]}}


class GatewayChatViewer(GatewayViewer):
    """A client of ZeroClaw's chat, in a session of its own."""

    async def open(self) -> None:
        path = f"/zeroclaw/ws/chat?agent=default&session_id={self.session_id}"
        self._socket = await WebSocket.open(self.address, path, self.api_headers, self._on_text)

    async def send(self, text: str) -> None:
        assert self._socket is not None
        self._socket.send_text(json.dumps({"type": "message", "content": text}).encode())


# By the names of benchmarks.encoder_cost.
VIEWERS: dict[str, type[GatewayViewer]] = {
    "chat page": GatewayViewer,
    "hub": HubViewer,
    "threads": ThreadViewer,
    "agent runs": AgentRunViewer,
    "completions": CompletionViewer,
    "responses": ResponseViewer,
    "AG-UI": AgUiViewer,
    "A2A": TaskViewer,
    "ZeroClaw chat": GatewayChatViewer,
}


def viewers_of(installation: Installation, kind: type[GatewayViewer], count: int) -> list[GatewayViewer]:
    """Return viewers of unused sessions."""
    return [viewer.beside(kind) for viewer in installation.viewers(count)]
