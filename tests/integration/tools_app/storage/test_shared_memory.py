"""Values that runs share: versions, writers, patterns, limits, and changes to wait for."""

import asyncio
import threading
from uuid import uuid4

import pytest
from django.db import connections

from audit_app.kernel import valkey
from audit_app.kernel.errors import InvalidInput
from tests.support.conditions import happens
from tools_app.storage import shared_memory
from tools_app.storage.shared_memory import Space, VersionMismatchError

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey")]


@pytest.fixture
def space() -> Space:
    return Space("network", uuid4())


def test_a_value_has_its_writer_and_version(space: Space) -> None:
    shared_memory.write(space, "plan", {"steps": 3}, writer="task:plan")
    changed = shared_memory.write(space, "plan", {"steps": 4}, writer="task:review")
    assert (changed.value, changed.version, changed.writer) == ({"steps": 4}, 2, "task:review")
    assert shared_memory.read(space, "plan") == changed
    assert shared_memory.read(Space("session", space.owner_id), "plan") is None
    assert shared_memory.delete(space, "plan") and not shared_memory.delete(space, "plan")


def test_a_repeated_write_changes_nothing(space: Space) -> None:
    first = shared_memory.write(space, "a", 1, writer="x")
    assert shared_memory.write(space, "a", 1, writer="x") == first


def test_a_write_may_demand_a_version(space: Space) -> None:
    shared_memory.write(space, "a", 1, writer="x", expected=0)
    with pytest.raises(VersionMismatchError) as refused:
        shared_memory.write(space, "a", 2, writer="y", expected=0)
    assert refused.value.found is not None and refused.value.found.writer == "x"
    assert shared_memory.write(space, "a", 2, writer="y", expected=1).version == 2


def test_values_are_found_by_patterns(space: Space) -> None:
    for key in ("research.web", "research.files", "plan"):
        shared_memory.write(space, key, key, writer="x")
    assert [each.key for each in shared_memory.find(space, "research.*")] == ["research.files", "research.web"]
    assert len(shared_memory.find(space)) == 3


def test_there_are_limits(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="at most 102,400 bytes"):
        shared_memory.write(space, "a", "x" * 103_000, writer="x")
    with pytest.raises(InvalidInput, match="1 to 120 characters"):
        shared_memory.write(space, "k" * 121, 1, writer="x")
    monkeypatch.setattr(shared_memory, "MAX_KEYS", 1)
    shared_memory.write(space, "a", 1, writer="x")
    with pytest.raises(InvalidInput, match="already 1 shared values"):
        shared_memory.write(space, "b", 1, writer="x")


def in_a_thread(space: Space, key: str, value: object) -> threading.Thread:
    """Write from another thread, with a connection of its own, as another process would."""

    def run() -> None:
        try:
            shared_memory.write(space, key, value, writer="other")
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_change_ends_a_wait(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory, "_LOOK_SECONDS", 600.0)  # only the announcement is in time

    async def main() -> object:
        waiting = asyncio.create_task(shared_memory.wait(space, "result.*", seconds=600))
        await happens(lambda: channel_has_listeners(space))
        thread = in_a_thread(space, "result.a", 7)
        found = await waiting
        thread.join()
        return found[0].value

    assert asyncio.run(asyncio.wait_for(main(), 60)) == 7


async def channel_has_listeners(space: Space) -> bool:
    client = valkey.async_client()
    try:
        [(_, count)] = await client.pubsub_numsub(space.channel)
        return bool(count)
    finally:
        await client.aclose()


def test_a_wait_ends_without_a_change(space: Space) -> None:
    shared_memory.write(space, "a", 1, writer="x")
    assert asyncio.run(shared_memory.wait(space, "a", seconds=0, after=1)) == ()
    assert asyncio.run(shared_memory.wait(space, "a", seconds=0))[0].value == 1


def test_a_wait_notices_a_change_whose_announcement_was_lost(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(shared_memory, "_announce", lambda space, key: None)

    async def main() -> object:
        waiting = asyncio.create_task(shared_memory.wait(space, "a", seconds=600))
        await happens(lambda: channel_has_listeners(space))
        in_a_thread(space, "a", 7).join()
        return (await waiting)[0].value

    assert asyncio.run(asyncio.wait_for(main(), 60)) == 7


def test_a_subscription_yields_what_there_is_and_each_change(space: Space) -> None:
    shared_memory.write(space, "a", 1, writer="x")

    async def main() -> list[object]:
        found: list[object] = []
        async for each in shared_memory.subscribe(space, "a"):
            found.append((each.value, each.writer))
            if len(found) == 2:
                break
            in_a_thread(space, "a", 2).join()
        return found

    assert asyncio.run(asyncio.wait_for(main(), 60)) == [(1, "x"), (2, "other")]
