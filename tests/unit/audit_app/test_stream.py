"""The writing side of a live stream while its server is unavailable, and the entries that it sends afterwards."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
from redis.exceptions import ConnectionError as NotConnected

from agents_app.runs.live_text import LiveText
from audit_app.stream import StreamWriter


class Server:
    """Accepts pipelines while it is open. faults: errors of the next ones; sent: the entries of each."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.faults: list[Exception] = []
        self.sent: list[list[dict[str, Any]]] = []

    def pipeline(self, transaction: bool) -> "Server":
        self.sent.append([])
        return self

    async def __aenter__(self) -> "Server":
        return self

    async def __aexit__(self, *_: object) -> None:
        return

    def xadd(self, key: str, fields: dict[str, str], **_: object) -> None:
        self.sent[-1].append(json.loads(fields["e"]))

    def expire(self, key: str, seconds: int) -> None:
        return

    async def execute(self, raise_on_error: bool) -> list[str]:
        await self.is_open.wait()
        if self.faults:
            raise self.faults.pop()
        return ["id"] * len(self.sent[-1])


@pytest.fixture
async def server() -> Server:
    return Server()


@pytest.fixture
async def live(server: Server) -> AsyncIterator[LiveText]:
    """A claim whose first entry has been sent."""
    writer = StreamWriter(server)  # type: ignore[arg-type]
    sending = asyncio.create_task(writer.run())
    live = LiveText(writer, uuid4(), fence=1)
    await live.flush()
    yield live
    sending.cancel()


async def send_unanswered(server: Server, live: LiveText, text: str) -> None:
    """Send the text to the server, which has not answered yet."""
    server.is_open.clear()
    batches = len(server.sent)
    live.add(text)
    while len(server.sent) == batches:
        await asyncio.sleep(0)


async def test_text_after_lost_text_is_sent_with_it(server: Server, live: LiveText) -> None:
    """Even if the server answers again before the loss is known."""
    await send_unanswered(server, live, "one ")
    live.add("two ")
    server.faults = [NotConnected("away for a moment")]
    server.is_open.set()
    await live.flush()
    live.add("three")
    await live.flush()
    assert server.sent[-1] == [{"type": "snapshot", "step": 0, "text": "one two three"}]


async def test_text_of_a_lost_stream_waits_as_one_snapshot(server: Server, live: LiveText) -> None:
    """Else each piece would be queued as a copy of the whole text for as long as the server hangs."""
    server.faults = [NotConnected("away")]
    live.add("word ")
    await live.flush()
    await send_unanswered(server, live, "word ")
    for _ in range(1000):
        live.add("word ")
    server.is_open.set()
    await live.flush()
    assert server.sent[-1] == [{"type": "snapshot", "step": 0, "text": "word " * 1002}]
