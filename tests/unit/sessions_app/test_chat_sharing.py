"""What the viewers of a process share: made once, by whoever asks first."""

import asyncio

import pytest

from sessions_app.surfaces.chat.single_flight import SingleFlight


class Kitchen:
    def __init__(self, value: list[str]) -> None:
        self.value, self.made, self.open = value, 0, asyncio.Event()

    async def make(self) -> list[str]:
        self.made += 1
        await self.open.wait()
        return self.value


async def test_many_who_ask_at_once_wait_for_one() -> None:
    shared, kitchen = SingleFlight[list[str]](kept=10), Kitchen(["frame"])
    asking = [asyncio.ensure_future(shared.get("run", kitchen.make)) for _ in range(50)]
    await asyncio.sleep(0)
    kitchen.open.set()
    assert await asyncio.gather(*asking) == [["frame"]] * 50
    assert await shared.get("run", kitchen.make) == ["frame"] and kitchen.made == 1


async def test_whoever_leaves_takes_it_from_nobody() -> None:
    shared, kitchen = SingleFlight[list[str]](kept=10), Kitchen(["frame"])
    first = asyncio.ensure_future(shared.get("run", kitchen.make))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(shared.get("run", kitchen.make))
    await asyncio.sleep(0)
    first.cancel()
    kitchen.open.set()
    assert await second == ["frame"] and kitchen.made == 1


async def test_what_is_empty_is_asked_for_again() -> None:
    shared, kitchen = SingleFlight[list[str]](kept=10), Kitchen([])
    kitchen.open.set()
    assert [await shared.get("run", kitchen.make) for _ in range(2)] == [[], []] and kitchen.made == 2


async def test_an_error_is_told_and_not_kept() -> None:
    shared, kitchen = SingleFlight[list[str]](kept=10), Kitchen(["frame"])
    kitchen.open.set()

    async def fail() -> list[str]:
        raise OSError

    with pytest.raises(OSError):
        await shared.get("run", fail)
    assert await shared.get("run", kitchen.make) == ["frame"]


async def test_the_oldest_are_given_up() -> None:
    shared, kitchen = SingleFlight[list[str]](kept=2), Kitchen(["frame"])
    kitchen.open.set()
    for key in ("a", "b", "c", "a"):
        await shared.get(key, kitchen.make)
    assert kitchen.made == 4
