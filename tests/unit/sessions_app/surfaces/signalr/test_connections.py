"""Overlapping long polls of one client, which has lost the older one by changing networks."""

import asyncio
from typing import Any

import pytest

from sessions_app.surfaces.signalr import consumers
from sessions_app.surfaces.signalr.connections import Connection
from sessions_app.surfaces.signalr.consumers import HubOverHttp


class AnyPrincipal:
    actor = "user:1"


@pytest.fixture
def connection() -> Connection:
    return Connection(AnyPrincipal(), is_open=True)  # type: ignore[arg-type]


async def waiting(connection: Connection) -> "asyncio.Task[str]":
    poll = asyncio.create_task(connection.take(60))
    for _ in range(5):  # until the poll waits
        await asyncio.sleep(0)
    return poll


async def test_frames_go_to_the_newest_poll(connection: Connection) -> None:
    older, newer = [await waiting(connection) for _ in range(2)]
    await connection.queue("frame")
    assert [await older, await newer] == ["", "frame"]


async def test_queued_frames_go_to_the_first_poll(connection: Connection) -> None:
    await connection.queue("one")
    await connection.queue("two")
    assert await connection.take(60) == "onetwo"


async def test_a_client_is_present_until_its_last_poll_ends(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(poll: HubOverHttp, *_: Any) -> None:
        pass

    monkeypatch.setattr(consumers.HubOverHttp, "_answer", answer)
    polls = [asyncio.create_task(HubOverHttp()._poll(connection)) for _ in range(2)]
    await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
    assert connection.polls == 1
    connection.hub.closed.set()
    await asyncio.gather(*polls)
    assert connection.polls == 0
