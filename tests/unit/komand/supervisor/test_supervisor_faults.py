"""Faults that the supervisor survives: full disks, no process to be had, hang-ups, traces of one that was killed."""

import asyncio
import errno
import io
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio

from komand import command_line, sd_notify
from komand.settings import env
from komand.supervisor import cli, embedded, preflight, probes, process_specs, restart, state
from komand.supervisor import status as status_command
from komand.supervisor.console import Screen
from komand.supervisor.options import Options, parse_up
from komand.supervisor.probes import LifeMessages
from komand.supervisor.processes import Child, Spec, State
from komand.supervisor.supervisor import Supervisor
from tests.support.conditions import happens


async def ready(child: Child) -> bool:
    return True


def sleeper() -> Spec:
    return Spec("sleeper", ["/bin/sleep", "60"], dict(os.environ), ready)


def options(tmp_path: Path) -> Options:
    return parse_up(["--data-dir", str(tmp_path), "--port", "0"])


def full_disk(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
async def supervisor(tmp_path: Path) -> AsyncIterator[Supervisor]:
    """One that has a process which sleeps."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = Supervisor(options(tmp_path), listener, Screen())
        await found._start_child(sleeper())
        yield found
        await found._end()


async def test_a_process_that_dies_while_the_disk_is_full_is_started_again(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    [child] = supervisor._children
    killed = child.pid
    monkeypatch.setattr(state, "write", full_disk)
    child.kill()
    await happens(lambda: child.state is State.READY and child.pid != killed)


@pytest.mark.parametrize(
    "unreadable", ["appendonly.aof.1.incr.aof", "appendonly.aof.1.base.rdb", "appendonly.aof.manifest"]
)
async def test_a_valkey_whose_files_a_power_cut_left_unreadable_starts_empty(tmp_path: Path, unreadable: str) -> None:
    binary, data_socket = embedded.find_binary(), embedded.choose_socket(tmp_path)
    stored, written = tmp_path / "valkey" / "appendonlydir", io.StringIO()
    stored.mkdir()
    manifest = "file appendonly.aof.1.base.rdb seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n"
    (stored / "appendonly.aof.manifest").write_text(manifest)
    (stored / "appendonly.aof.1.base.rdb").write_bytes(b"")
    (stored / "appendonly.aof.1.incr.aof").write_bytes(b"")
    (stored / unreadable).write_bytes(bytes(500))
    assert binary
    screen = Screen(written)
    child = Child(process_specs.valkey(options(tmp_path), binary, data_socket), screen, lambda: None)
    child.start()
    try:
        async with asyncio.timeout(60):
            assert await child.settled() is State.READY
    finally:
        await child.stop(1)
        embedded.forget_socket(tmp_path, data_socket)
    screen.close()
    assert (tmp_path / "valkey" / "appendonlydir.unreadable" / unreadable).exists()
    assert "nothing is lost" in written.getvalue()


async def test_a_valkey_that_cannot_write_its_file_shows_life(tmp_path: Path) -> None:
    """Otherwise it would be killed, and started again on the same disk."""
    binary, data_socket = embedded.find_binary(), embedded.choose_socket(tmp_path)
    assert binary
    # A file with this name can be neither created nor replaced, which has the effect of a full disk.
    (tmp_path / "valkey" / "dump.rdb" / "file").mkdir(parents=True)
    command = [*embedded.command(binary, tmp_path, data_socket), "--save", "1 1"]
    url = f"unix://{env.VALKEY_USER}:{env.stored_secret(tmp_path, env.VALKEY_SECRET)}@{data_socket}"
    server = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
    try:
        async with redis.asyncio.Redis.from_url(url) as client:
            async with asyncio.timeout(30):
                while not await embedded.answers(tmp_path, data_socket):
                    await asyncio.sleep(0.05)  # until the server listens
                with pytest.raises(redis.ResponseError, match="MISCONF"):
                    while await client.incr("a"):
                        await asyncio.sleep(0.05)  # until the server has tried to write its file
            with pytest.raises(redis.ResponseError, match="MISCONF"):
                await client.ping()
        assert await embedded.answers(tmp_path, data_socket)
    finally:
        server.kill()
        await server.wait()
        embedded.forget_socket(tmp_path, data_socket)


async def test_a_process_whose_readiness_was_lost_is_ready_by_its_first_beat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor that is stopped does not read its socket, which then takes no more."""
    path = tmp_path / "s"
    monkeypatch.setenv("NOTIFY_SOCKET", str(path))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found, read, sent = Supervisor(options(tmp_path), listener, Screen()), [], 0

        def beat(pid: int) -> None:
            read.append(pid)
            found._on_beat(pid)

        messages = await LifeMessages.listen(path, found._on_ready, beat)
        child = Child(sleeper(), Screen(), lambda: None, pid=os.getpid())
        found._children.append(child)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as others, suppress(BlockingIOError):
            others.setblocking(False)
            others.connect(str(path))
            while True:
                others.send(b"WATCHDOG=1\nMAINPID=1")
                sent += 1
        sd_notify.notify_ready()
        await happens(lambda: len(read) == sent)
        assert not child.is_reported_ready
        sd_notify._notify("WATCHDOG=1")
        await happens(lambda: child.is_reported_ready)
        messages.close()


async def test_a_process_that_cannot_be_started_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    begin, tries = asyncio.create_subprocess_exec, 0

    async def fail_once(*arguments: Any, **options: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return await begin(*arguments, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", fail_once)
    child = Child(sleeper(), Screen(), lambda: None)
    child.start()
    try:
        await happens(lambda: child.state is State.READY)
    finally:
        await child.stop(1)


async def test_the_restart_command_prints_every_failure(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(environment: dict[str, str], **options: bool) -> Awaitable[Any]:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "python")

    monkeypatch.setattr(process_specs, "run_prepare", gone)
    supervisor._is_up = True
    supervisor._on_roll()
    await happens(lambda: supervisor._rolls)
    note = state.read(tmp_path)
    assert note and note.rolls == 1 and "No such file" in note.roll_failure


async def test_a_new_password_is_shown_also_when_the_start_is_broken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was made, and will not be shown again."""
    starting, shown = asyncio.Event(), io.StringIO()

    async def prepare() -> dict[str, Any]:
        return {"login": {"username": "admin", "email": "admin@localhost", "password": "pass-word"}}

    async def hang(spec: Spec) -> None:
        starting.set()
        await asyncio.Event().wait()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        screen = Screen(shown)
        found = Supervisor(options(tmp_path), listener, screen)
        monkeypatch.setattr(found, "_start_valkey", lambda: asyncio.sleep(0))
        monkeypatch.setattr(found, "_prepare", prepare)
        monkeypatch.setattr(found, "_start_child", hang)
        running = asyncio.create_task(found.run())
        await starting.wait()
        found._on_signal()
        assert await running == 0
        screen.close()
    assert "pass-word" in shown.getvalue()


@pytest.mark.parametrize(("status", "pauses"), [(503, [1.0]), (0, [1.0]), (200, [])])
async def test_a_web_process_that_lacks_something_is_not_asked_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, pauses: list[float]
) -> None:
    paused: list[float] = []

    async def answer(*_: object) -> int:
        return status

    async def sleep(seconds: float) -> None:
        paused.append(seconds)

    monkeypatch.setattr(probes, "http_status", answer)
    spec = process_specs.web(options(tmp_path), 3, 8000, {})
    child = Child(spec, Screen(), lambda: None, is_reported_ready=True)
    monkeypatch.setattr("komand.supervisor.process_specs.asyncio.sleep", sleep)
    assert await spec.is_ready(child) == (status == 200) and paused == pauses


@pytest.fixture
def hangup_ignored() -> Iterator[None]:
    """As by nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangup_ignored")
async def test_a_hangup_that_is_ignored_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = Supervisor(options(tmp_path), listener, Screen())
        monkeypatch.setattr(found, "_start", lambda: asyncio.sleep(0))
        running = asyncio.create_task(found.run())
        await happens(lambda: state.read(tmp_path))
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0)
        assert not found._stop.is_set()
        found._on_signal()
        assert await running == 0


def test_what_a_killed_supervisor_noted_is_not_taken_for_the_new_one_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process ids may be somebody else's by now, and a restart sends them a signal."""
    state.write(tmp_path, state.Note(os.getpid(), "", "127.0.0.1", 8000, "", 1.5, ()))
    found = []

    async def run(self: Supervisor) -> int:
        found.append(state.read(tmp_path))
        return 0

    monkeypatch.setattr(Supervisor, "run", run)
    assert cli.up(options(tmp_path)) == 0
    assert found == [None]


def test_a_file_that_cannot_be_used_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "supervisor.lock").mkdir()
    assert cli.up(options(tmp_path)) == 1
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1 and "supervisor.lock cannot be used (Is a directory)" in printed


def test_a_full_disk_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "write_bytes", full_disk)
    with pytest.raises(preflight.NotReady, match="No space left on device.*--data-dir"):
        preflight.open_data_dir(tmp_path)


@pytest.mark.parametrize(("is_up", "code", "health"), [(False, 1, "starting"), (True, 0, "ok")])
def test_an_installation_that_still_starts_is_not_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_up: bool, code: int, health: str
) -> None:
    lock = preflight.take_lock(tmp_path)
    state.write(tmp_path, state.Note(os.getpid(), "http://x", "127.0.0.1", 8000, "", 1.5, (), is_up=is_up))
    assert status_command.main(["--data-dir", str(tmp_path)]) == code
    os.close(lock)
    assert f"  {health} " in capsys.readouterr().out


def test_a_restart_does_not_wait_for_a_supervisor_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restart, "_LONGEST_SECONDS", 0.5)
    state.write(tmp_path, state.Note(1, "http://x", "127.0.0.1", 8000, "", 1.5, ()))
    assert restart._wait(tmp_path, 0) == "the supervisor was stopped meanwhile"


def test_ctrl_c_outside_the_supervisor_s_loop_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(argv: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "main", interrupted)
    monkeypatch.setattr("sys.argv", ["manage.py", "restart"])
    assert command_line.main() == 130


async def test_a_process_on_demand_starts_when_it_is_needed_and_may_end(tmp_path: Path) -> None:
    command = ["/bin/sh", "-c", f"echo >> {tmp_path}/started; sleep 0.05"]
    child = Child(Spec("sockets", command, dict(os.environ), ready, on_demand=True), Screen(), lambda: None)
    child.start()
    assert await child.settled() is State.IDLE and child.pid is None
    for count in (1, 2):
        child.demand()
        await happens(lambda: child.state is State.IDLE and not child.is_demanded)
        assert (tmp_path / "started").read_text().count("\n") == count and child.restarts == 0
    await child.stop(1.0)


async def test_a_process_on_demand_that_fails_is_started_again(tmp_path: Path) -> None:
    command = ["/bin/sh", "-c", "exit 1"]
    child = Child(Spec("sockets", command, dict(os.environ), ready, on_demand=True), Screen(), lambda: None)
    child.start()
    child.demand()
    await happens(lambda: child.restarts >= 2)
    assert child.is_demanded
    await child.stop(1.0)


async def test_any_process_may_ask_for_the_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    messages = await LifeMessages.listen(tmp_path / "ready.sock", lambda pid: None, lambda pid: None, asked.append)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "ready.sock"))
    sd_notify.request_sockets()
    await happens(lambda: asked == [os.getpid()])
    messages.close()
