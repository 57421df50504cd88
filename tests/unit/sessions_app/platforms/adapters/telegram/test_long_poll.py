"""Long polling of a Bot API server that does not wait."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from sessions_app.platforms.adapters.telegram import long_poll
from sessions_app.platforms.adapters.telegram.updates import Bot
from sessions_app.platforms.link import ConnectionLost, Received


class Link:
    cursor = ""

    async def deliver(self, received: Sequence[Received], cursor: str) -> None:
        raise NotImplementedError

    def heartbeat(self) -> None:
        return


async def test_a_server_that_answers_at_once_is_asked_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    pauses: list[float] = []

    async def request(method: str, **content: Any) -> list[Any]:
        asked.append(content["json"]["timeout"])
        return []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise ConnectionLost("the end of the test")

    monkeypatch.setattr(asyncio, "sleep", pause)
    with pytest.raises(ConnectionLost):
        await long_poll.poll(request, Link(), Bot("1", "bot"))
    assert asked == [0, 30, 30], "the first request only looks what there is"
    assert all(0.5 < seconds <= 1.0 for seconds in pauses)
