"""A rolling restart: the old process ends when the new one is ready, and stays otherwise."""

import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from komand.supervisor import supervisor as supervisor_module
from komand.supervisor.console import Screen
from komand.supervisor.options import parse_up
from komand.supervisor.processes import Child, Spec
from komand.supervisor.supervisor import StartFailed, Supervisor
from tests.support.live_server import wait_for


async def ready(child: Child) -> bool:
    return True


async def never_ready(child: Child) -> bool:
    return False


@pytest.fixture
async def supervisor(tmp_path: Path) -> AsyncIterator[Supervisor]:
    """Return a supervisor with one process, which sleeps."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        found = Supervisor(parse_up(["--data-dir", str(tmp_path)]), listener, Screen())
        await found._start_child(Spec("sleeper", ["/bin/sleep", "60"], dict(os.environ), ready))
        yield found
        await found._end()


async def test_a_process_is_replaced_by_one_that_works(supervisor: Supervisor) -> None:
    [child] = supervisor._children
    old = child.pid
    await supervisor._replace(child)
    [successor] = supervisor._children
    assert successor is not child and successor.pid != old
    assert psutil.pid_exists(successor.pid or 0) and not psutil.pid_exists(old or 0)


async def test_a_process_stays_when_its_successor_does_not_come_up(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    [child] = supervisor._children
    monkeypatch.setattr(supervisor_module, "_START_SECONDS", 0.3)
    monkeypatch.setattr(child, "spec", Spec("sleeper", ["/bin/sleep", "61"], dict(os.environ), never_ready))
    with pytest.raises(StartFailed):
        await supervisor._replace(child)
    assert supervisor._children == [child] and psutil.pid_exists(child.pid or 0)
    assert not supervisor._passing
    wait_for(lambda: not is_sleeping("61"), 60, "its end")


def is_sleeping(seconds: str) -> bool:
    """Return whether a process of this test sleeps for that time."""
    found = [process.info for process in psutil.process_iter(["ppid", "cmdline"])]
    return any(one["ppid"] == os.getpid() and seconds in (one["cmdline"] or ()) for one in found)
