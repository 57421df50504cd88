"""Long polls of one client that overlap: it has lost the older one, as when it changes networks."""

import asyncio
from typing import Any

import pytest

from sessions_app.surfaces.signalr import consumers
from sessions_app.surfaces.signalr.connections import Connection
from sessions_app.surfaces.signalr.consumers import HubOverHttp


class Anybody:
    actor = "user:1"


@pytest.fixture
def connection() -> Connection:
    return Connection(Anybody(), is_open=True)  # type: ignore[arg-type]


async def waiting(connection: Connection) -> "asyncio.Task[str]":
    poll = asyncio.create_task(connection.take(60))
    for _ in range(5):  # until it waits
        await asyncio.sleep(0)
    return poll


async def test_frames_go_to_the_newest_poll(connection: Connection) -> None:
    older, newer = [await waiting(connection) for _ in range(2)]
    await connection.queue("frame")
    assert await asyncio.gather(older, newer) == ["", "frame"]


async def test_what_waits_goes_to_the_first_that_comes(connection: Connection) -> None:
    await connection.queue("one")
    await connection.queue("two")
    assert await connection.take(60) == "onetwo"


async def test_a_client_whose_older_poll_ends_is_still_there(
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
