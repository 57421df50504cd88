"""The watchdog: a process that hangs is killed and started again, others are left alone."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from komand.supervisor import process_times, processes
from komand.supervisor.console import Screen
from komand.supervisor.probes import LifeMessages
from komand.supervisor.processes import Child, Spec
from tests.support.conditions import happens
from tests.support.live_server import wait_for

LOOK_SECONDS = 0.01


async def ready(child: Child) -> bool:
    return True


class Clock:
    """A clock that advances by a little less than the pause between checks at each call, and only then, so that a busy
    machine does not look like a supervisor that was stopped."""

    time = staticmethod(time.time)

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 0.9 * LOOK_SECONDS
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(processes, "SILENT_SECONDS", 0.3)
    monkeypatch.setattr(processes, "_LOOK_SECONDS", LOOK_SECONDS)
    monkeypatch.setattr(processes, "time", clock := Clock())
    return clock


@pytest.fixture
async def child(clock: Clock):
    """Start a process that sleeps, checked every hundredth of a second."""
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
        await asyncio.sleep(0.01)  # a poll up to the given time, which may end without a restart
    return False


async def test_a_process_that_stops_its_messages_is_started_again(child: Child, clock: Clock) -> None:
    child.beat_at = clock.now
    assert await ended(child, 30)


async def test_a_process_that_never_sent_a_message_is_left_alone(child: Child) -> None:
    assert not await ended(child, 0.6)


async def test_a_process_that_sends_messages_is_left_alone(child: Child, clock: Clock) -> None:
    for _ in range(12):
        child.beat_at = clock.now
        assert not await ended(child, 0.05)


async def test_a_supervisor_that_was_stopped_itself_restarts_nothing(child: Child, clock: Clock) -> None:
    child.beat_at = clock.now
    clock.now += 0.5
    assert not await ended(child, 0.1)


@pytest.mark.parametrize(("longest", "is_killed"), [(60.0, False), (0.1, True)])
async def test_waiting_for_a_processor_is_not_silence_up_to_a_limit(
    child: Child, clock: Clock, monkeypatch: pytest.MonkeyPatch, longest: float, is_killed: bool
) -> None:
    monkeypatch.setattr(processes, "_STARVED_SECONDS", longest)
    monkeypatch.setattr(process_times, "waited_seconds", lambda pid: clock.now)
    child.beat_at = clock.now
    until = clock.now + 1.0
    while clock.now < until and not child.restarts:
        await asyncio.sleep(LOOK_SECONDS)  # the time in which the supervisor looks again
    assert bool(child.restarts) == is_killed


def test_the_time_without_a_processor_is_read_of_living_processes_alone() -> None:
    assert process_times.waited_seconds(os.getpid()) >= 0
    assert process_times.waited_seconds(2**22 + 1) == 0


async def test_watchdog_messages_come_by_the_notify_socket(tmp_path: Path) -> None:
    received: list[tuple[str, int]] = []
    path = tmp_path / "s"
    messages = await listen(path, received)
    program = (
        "from komand import sd_notify as n; n.notify_ready(); n.show_life(lambda: False); import time; time.sleep(30)"
    )
    environment = {**os.environ, "NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "6000000"}
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, env=environment)
    try:
        await happens(lambda: len(received) >= 3, 30)
    finally:
        process.kill()
        await process.wait()
        messages.close()
    assert received[:3] == [("ready", process.pid), ("beat", process.pid), ("beat", process.pid)]


async def listen(path: Path, received: list[tuple[str, int]]) -> asyncio.DatagramTransport:
    def note(what: str) -> Callable[[int], None]:
        return lambda pid: received.append((what, pid))

    return await LifeMessages.listen(path, note("ready"), note("beat"))


async def test_a_stuck_process_sends_no_watchdog_message(tmp_path: Path) -> None:
    received: list[tuple[str, int]] = []
    path = tmp_path / "s"
    messages = await listen(path, received)
    program = (
        "from komand import sd_notify as n; import time; n.show_life(lambda: True); time.sleep(0.2); n.notify_ready()"
    )
    environment = {**os.environ, "NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "6000000"}
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, env=environment)
    assert await process.wait() == 0
    await asyncio.sleep(0)
    messages.close()
    assert received == [("ready", process.pid)]


def test_a_process_with_a_watchdog_ends_with_its_parent() -> None:
    """Also on systems without PR_SET_PDEATHSIG."""
    program = "import time; from komand import sd_notify as n; n.show_life(bool); print(1, flush=True); time.sleep(60)"
    starter = (
        "import os, subprocess, sys; child = subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=-1);"
        " child.stdout.readline(); print(child.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    command, environment = [sys.executable, "-c", starter, program], {**os.environ, "WATCHDOG_USEC": "1"}
    found = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    pid = int(found.stdout)
    try:
        wait_for(lambda: not is_running(pid), 60, "its end")
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_process_whose_parent_ended_while_it_was_started_ends() -> None:
    """The supervisor passes its process id: by the time at which the process looks, it has another parent."""
    program = "import time; from komand import sd_notify as n; n.show_life(bool); time.sleep(60)"
    environment = {**os.environ, "WATCHDOG_USEC": "1", "KOMAND_SUPERVISOR_PID": str(2**22 + 1)}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, timeout=50)
    assert ended.returncode == -signal.SIGKILL


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.usefixtures("clock")
async def test_a_process_without_messages_is_probed() -> None:
    answers = True

    async def shows_life() -> bool:
        return answers

    child = Child(Spec("sleeper", ["/bin/sleep", "60"], dict(os.environ), ready, shows_life), Screen(), lambda: None)
    child.start()
    await child.settled()
    assert not await ended(child, 0.4)
    answers = False
    assert await ended(child, 30)
    await child.stop(1)
