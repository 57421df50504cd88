"""A process that hangs is killed and started again; one that merely works, or that never showed life, is left alone."""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from komand.supervisor import processes
from komand.supervisor.probes import LifeMessages
from komand.supervisor.processes import Child, Spec
from komand.supervisor.screen import Screen


async def ready(child: Child) -> bool:
    return True


@pytest.fixture
async def child(monkeypatch: pytest.MonkeyPatch):
    """A process that sleeps, watched every hundredth of a second."""
    monkeypatch.setattr(processes, "SILENT_SECONDS", 0.3)
    monkeypatch.setattr(processes, "_LOOK_SECONDS", 0.01)
    child = Child(Spec("sleeper", ["/bin/sleep", "60"], dict(os.environ), ready), Screen(), lambda: None)
    child.start()
    await child.settled()
    yield child
    await child.stop(1)


async def ended(child: Child, seconds: float) -> bool:
    pid, deadline = child.pid, time.monotonic() + seconds
    while time.monotonic() < deadline:
        if child.restarts and child.pid != pid:
            return True
        await asyncio.sleep(0.01)
    return False


async def test_a_process_that_falls_silent_is_started_again(child: Child) -> None:
    child.beat_at = time.monotonic()
    assert await ended(child, 5)


async def test_a_process_that_never_showed_life_is_left_alone(child: Child) -> None:
    assert not await ended(child, 0.6)


async def test_a_process_that_shows_life_is_left_alone(child: Child) -> None:
    for _ in range(12):
        child.beat_at = time.monotonic()
        assert not await ended(child, 0.05)


async def test_a_supervisor_that_was_stopped_itself_blames_nobody(child: Child) -> None:
    child.beat_at = time.monotonic()
    time.sleep(0.5)
    assert not await ended(child, 0.1)


async def test_signs_of_life_come_by_the_notify_socket(tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    path = tmp_path / "s"
    messages = await listen(path, told)
    program = (
        "from komand import parent; parent.tell_ready(); parent.show_life(lambda: False); import time; time.sleep(30)"
    )
    environment = {**os.environ, "NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "6000000"}
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, env=environment)
    try:
        async with asyncio.timeout(10):
            while len(told) < 3:
                await asyncio.sleep(0.01)
    finally:
        process.kill()
        await process.wait()
        messages.close()
    assert told[:3] == [("ready", process.pid), ("beat", process.pid), ("beat", process.pid)]


async def listen(path: Path, told: list[tuple[str, int]]) -> asyncio.DatagramTransport:
    def note(what: str) -> Callable[[int], None]:
        return lambda pid: told.append((what, pid))

    return await LifeMessages.listen(path, note("ready"), note("beat"))


async def test_a_process_that_is_stuck_does_not_say_that_it_lives(tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    path = tmp_path / "s"
    messages = await listen(path, told)
    program = (
        "from komand import parent; import time; parent.show_life(lambda: True); time.sleep(0.2); parent.tell_ready()"
    )
    environment = {**os.environ, "NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "6000000"}
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, env=environment)
    assert await process.wait() == 0
    await asyncio.sleep(0)
    messages.close()
    assert told == [("ready", process.pid)]


async def test_a_process_that_does_not_speak_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = True

    async def shows_life() -> bool:
        return answers

    monkeypatch.setattr(processes, "SILENT_SECONDS", 0.2)
    monkeypatch.setattr(processes, "_LOOK_SECONDS", 0.01)
    child = Child(Spec("sleeper", ["/bin/sleep", "60"], dict(os.environ), ready, shows_life), Screen(), lambda: None)
    child.start()
    await child.settled()
    assert not await ended(child, 0.4)
    answers = False
    assert await ended(child, 5)
    await child.stop(1)
