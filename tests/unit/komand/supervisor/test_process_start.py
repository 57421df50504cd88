"""Workers that the fork server forks: children of the supervisor, with a life of their own."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from komand.supervisor import orphans, process_start
from komand.supervisor.console import Screen
from komand.supervisor.process_start import Started
from komand.supervisor.processes import Child, Spec
from tests.support.conditions import happens
from tests.support.live_server import ROOT

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers"), pytest.mark.timeout(180)]

# The fork server without what takes long to load. Its workers print their arguments and sleep.
SERVER = """
import sys, time
from pathlib import Path
from komand import fork_server, worker

def work(arguments):
    print("runs", *arguments, flush=True)
    time.sleep(600)

fork_server._load = lambda: None
worker.main = work
fork_server.main(Path(sys.argv[1]))
"""
# A supervisor that starts this fork server, has it fork a worker, and is killed.
SUPERVISOR = """
import asyncio, os, subprocess, sys
from pathlib import Path
from komand.supervisor import orphans, process_start

async def main():
    with orphans.adopted(lambda: ()):
        server, path, *command = sys.argv[1:]
        subprocess.Popen([sys.executable, "-c", server, path])
        while not (worker := await process_start.fork(Path(path), command)):
            await asyncio.sleep(0.1)
        print(worker.pid, flush=True)
        os.kill(os.getpid(), 9)

asyncio.run(main())
"""
COMMAND = ("python", "-m", "komand.worker", "-n", "runs-1@%h")


def serve(path: Path) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("NOTIFY_SOCKET", None)
    return subprocess.Popen([sys.executable, "-c", SERVER, str(path)], env=environment)


@pytest.fixture
async def path(tmp_path: Path) -> AsyncIterator[Path]:
    """Start a fork server whose supervisor is this process. Yields its socket."""
    found = tmp_path / "fork.sock"
    own: set[int] = set()
    with orphans.adopted(lambda: own):
        server = serve(found)
        own.add(server.pid)
        await happens(found.exists, 120)
        yield found
        server.kill()
        server.wait()


async def fork(path: Path, *arguments: str) -> Started:
    worker = await process_start.fork(path, (*COMMAND, *arguments))
    assert worker is not None
    return worker


def is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


async def test_a_worker_is_a_child_of_the_supervisor_with_a_session_output_and_name_of_its_own(path: Path) -> None:
    worker = await fork(path, "-Q", "runs")
    assert await worker.output.readline() == b"runs -n runs-1@%h -Q runs\n"
    process = psutil.Process(worker.pid)
    assert process.ppid() == os.getpid() and os.getsid(worker.pid) == worker.pid
    assert process.name() == "runs-1" and process.cmdline()[1:3] == ["-m", "komand.worker"]
    process.kill()
    assert await worker.ending == -signal.SIGKILL
    assert await worker.output.read() == b""


async def test_workers_of_one_fork_server_live_beside_each_other_and_without_it(path: Path) -> None:
    first, second = await fork(path), await fork(path)
    [server] = [child for child in psutil.Process().children() if str(path) in child.cmdline()]
    server.kill()
    await happens(lambda: not is_running(server.pid), 60)
    assert is_running(first.pid) and is_running(second.pid)
    assert await process_start.fork(path, COMMAND) is None
    for worker in (first, second):
        os.kill(worker.pid, signal.SIGKILL)
        await worker.ending


async def test_a_worker_that_the_supervisor_has_given_up_ends(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as link, open(os.devnull, "wb") as output:
        link.connect(str(path))
        socket.send_fds(link, [b'["python", "-m", "komand.worker", "-n", "x"]'], [output.fileno()])
        pid = int(await asyncio.to_thread(link.recv, 32))
        assert is_running(pid)
    await happens(lambda: not psutil.pid_exists(pid), 60)  # and it is no zombie


async def test_a_worker_ends_with_its_supervisor(tmp_path: Path) -> None:
    path = tmp_path / "fork.sock"
    command = [sys.executable, "-c", SUPERVISOR, SERVER, str(path), *COMMAND]
    ended = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    pid = int((await ended.communicate())[0])
    await happens(lambda: not is_running(pid), 60)
    await happens(lambda: not any(str(path) in one.info["cmdline"] for one in cmdlines()), 60)


def cmdlines() -> list[psutil.Process]:
    return [one for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"]]


async def test_without_a_fork_server_the_command_is_executed(tmp_path: Path) -> None:
    async def ready(child: Child) -> bool:
        return True

    spec = Spec("sleeper", ["/bin/sleep", "60"], dict(os.environ), ready, fork_server=tmp_path / "none")
    child = Child(spec, Screen(), lambda: None)
    child.start()
    await child.settled()
    await happens(lambda: psutil.Process(child.pid).cmdline() == ["/bin/sleep", "60"], 60)
    await child.stop(1)
