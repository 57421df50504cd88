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
from tests.support.conditions import happens


class Server:
    """Accepts pipelines while it is open. faults: errors of the next ones; sent, ids: the entries of each."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.faults: list[Exception] = []
        self.sent: list[list[dict[str, Any]]] = []
        self.ids: list[list[str]] = []

    def pipeline(self, transaction: bool) -> "Server":
        self.sent.append([])
        self.ids.append([])
        return self

    async def __aenter__(self) -> "Server":
        return self

    async def __aexit__(self, *_: object) -> None:
        return

    def xadd(self, key: str, fields: dict[str, str], id: str, **_: object) -> None:
        self.ids[-1].append(id)
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
    await happens(lambda: len(server.sent) > batches)


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


async def test_text_that_the_server_takes_is_not_copied(live: LiveText) -> None:
    live.add("word ")
    assert live.copy() is None
    await live.flush()
    assert live.copy() is None


async def test_lost_text_is_copied_once(server: Server, live: LiveText) -> None:
    server.faults = [NotConnected("away")]
    live.add("one ")
    await live.flush()
    first = live.copy()
    assert first and (first.fence, first.fields) == (1, {"type": "snapshot", "step": 0, "text": "one "})
    assert live.copy() is None
    live.add("two")
    second = live.copy()
    assert second and (second.n > first.n, second.fields["text"]) == (True, "one two")


async def test_text_after_a_copy_has_a_later_position(server: Server, live: LiveText) -> None:
    """Else a viewer that has the copy would take it for a duplicate."""
    server.faults = [NotConnected("away")]
    live.add("one ")
    await live.flush()
    live.add("two ")  # waits as a snapshot, which can still grow
    copy = live.copy()
    live.add("three")
    await live.flush()
    assert server.sent[-1] == [{"type": "snapshot", "step": 0, "text": "one two three"}]
    assert copy and [tuple(map(int, one.split("-"))) > (copy.fence, copy.n) for one in server.ids[-1]] == [True]


async def test_text_is_copied_while_the_server_hangs(
    server: Server, live: LiveText, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send_unanswered(server, live, "one ")
    assert live.copy() is None  # it may answer in a moment
    monkeypatch.setattr("audit_app.stream._DOUBT_SECONDS", 0)
    live.add("two")
    copy = live.copy()
    assert copy and copy.fields["text"] == "one two"
    async with asyncio.timeout(60):
        await live.flush()  # nobody waits for it
    server.is_open.set()
