"""A client of the surface for tests: calls of the whole application, and the chat."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator

from komand import asgi
from sessions_app.surfaces.zeroclaw.chat_socket import ChatSocket
from sessions_app.surfaces.zeroclaw.consumers import routes
from tests.support.rest import LiveCaller

SECONDS = 60
SOCKETS = URLRouter([route for route in routes if route.callback.consumer_class is ChatSocket])
Frame = dict[str, Any]


async def call(key: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """Send a request below /zeroclaw. Return the status and the JSON of the answer."""
    caller = LiveCaller(asgi.application, bearer=key)
    length = str(len(json.dumps(body).encode())) if body is not None else "0"
    status, text = await caller.ask(method, f"/zeroclaw{path}", body, Content_Length=length, **headers)
    return status, json.loads(text)


class ChatClient:
    """An open chat. started: the first frame."""

    started: Frame

    def __init__(self, wire: WebsocketCommunicator) -> None:
        self._wire = wire

    async def read(self) -> Frame:
        frame: Frame = json.loads(await self._wire.receive_from(SECONDS))
        return frame

    async def until(self, *types: str) -> list[Frame]:
        """Return the frames up to the first of one of these types, which is the last."""
        frames = [await self.read()]
        while frames[-1]["type"] not in types:
            frames.append(await self.read())
        return frames

    async def send(self, **frame: Any) -> None:
        await self._wire.send_to(text_data=json.dumps(frame))

    async def send_text(self, text: str) -> None:
        await self._wire.send_to(text_data=text)

    async def say(self, text: str) -> list[Frame]:
        """Send a message. Return the frames up to the end of its run."""
        await self.send(type="message", content=text)
        return await self.until("agent_end", "error")

    async def closed(self) -> int:
        while (output := await self._wire.receive_output(SECONDS))["type"] != "websocket.close":
            pass
        return int(output.get("code", 1000))


@asynccontextmanager
async def chat(key: str, query: str = "agent=default", protocols: tuple[str, ...] = ()) -> AsyncIterator[ChatClient]:
    headers = [(b"host", b"localhost")] + ([(b"authorization", f"Bearer {key}".encode())] if key else [])
    wire = WebsocketCommunicator(SOCKETS, f"/zeroclaw/ws/chat?{query}", headers, [*protocols])
    accepted, _ = await wire.connect(SECONDS)
    assert accepted
    client = ChatClient(wire)
    client.started = await client.read()
    try:
        yield client
    finally:
        await wire.disconnect(timeout=SECONDS)


def text_of(frames: list[Frame]) -> str:
    return "".join(frame["content"] for frame in frames if frame["type"] == "chunk")


def types(frames: list[Frame]) -> list[str]:
    """Return the types of frames, without repetitions in a row."""
    found = [one["type"] for one in frames]
    return [kind for place, kind in enumerate(found) if found[place - 1 : place] != [kind]]
