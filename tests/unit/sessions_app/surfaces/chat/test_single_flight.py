"""Values that the viewers of a process share: computed once, for the first caller."""

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


async def test_concurrent_callers_wait_for_one_computation() -> None:
    shared, kitchen = SingleFlight[list[str]](kept=10), Kitchen(["frame"])
    asking = [asyncio.ensure_future(shared.get("run", kitchen.make)) for _ in range(50)]
    await asyncio.sleep(0)
    kitchen.open.set()
    assert await asyncio.gather(*asking) == [["frame"]] * 50
    assert await shared.get("run", kitchen.make) == ["frame"] and kitchen.made == 1


async def test_a_cancelled_caller_does_not_cancel_the_others() -> None:
    shared, kitchen = SingleFlight[list[str]](kept=10), Kitchen(["frame"])
    first = asyncio.ensure_future(shared.get("run", kitchen.make))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(shared.get("run", kitchen.make))
    await asyncio.sleep(0)
    first.cancel()
    kitchen.open.set()
    assert await second == ["frame"] and kitchen.made == 1


async def test_empty_values_are_not_kept() -> None:
    shared, kitchen = SingleFlight[list[str]](kept=10), Kitchen([])
    kitchen.open.set()
    assert [await shared.get("run", kitchen.make) for _ in range(2)] == [[], []] and kitchen.made == 2


async def test_an_error_is_raised_and_not_kept() -> None:
    shared, kitchen = SingleFlight[list[str]](kept=10), Kitchen(["frame"])
    kitchen.open.set()

    async def fail() -> list[str]:
        raise OSError("no frame")

    with pytest.raises(OSError, match="no frame"):
        await shared.get("run", fail)
    assert await shared.get("run", kitchen.make) == ["frame"]


async def test_the_oldest_values_are_dropped() -> None:
    shared, kitchen = SingleFlight[list[str]](kept=2), Kitchen(["frame"])
    kitchen.open.set()
    for key in ("a", "b", "c", "a"):
        await shared.get(key, kitchen.make)
    assert kitchen.made == 4
