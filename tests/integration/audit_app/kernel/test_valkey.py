"""Commands that nobody waits for: they arrive, also after the server was killed, and what it refuses is logged."""

import asyncio
import logging
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest
from pytest_django import Settings

from audit_app.kernel import nudges, valkey
from tests.support.engine import EngineRig, until
from tests.support.killed_valkey import OwnValkey
from tests.support.tcp_gate import TcpGate
from tests.support.tls_proxy import TlsProxy
from tests.support.unreachable_valkey import hanging_server


class _TlsGate(TlsProxy):
    """TLS before a server at a Unix socket."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._socket = folder / "own.sock"

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_unix_connection(str(self._socket))
        await asyncio.gather(self.copy(reader, to_server), self.copy(from_server, writer))


@pytest.fixture
def clients() -> Iterator[None]:
    """Let this process connect to the server of the settings, and forget it at the end."""
    forget = valkey.sync_client.cache_clear, valkey._senders.clear
    for each in forget:
        each()
    yield
    for each in forget:
        each()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OwnValkey]:
    server = OwnValkey(tmp_path / "own.sock")
    yield server
    server.kill()
    server.client.close()


@pytest.fixture(params=["unix", "TCP", "TLS"])
def reached(request: pytest.FixtureRequest, server: OwnValkey, clients: None, tmp_path: Path, settings: Settings):
    """Yield the server, which this process reaches in one of the ways that the settings allow."""
    if request.param == "unix":
        settings.KOMAND_REDIS_URL = f"unix://{tmp_path}/own.sock"
        yield server
    elif request.param == "TCP":
        with TcpGate(tmp_path / "own.sock") as gate:
            settings.KOMAND_REDIS_URL = f"redis://127.0.0.1:{gate.port}"
            yield server
    else:
        with _TlsGate(tmp_path) as proxy:
            settings.KOMAND_REDIS_URL = f"rediss://localhost:{proxy.port}?ssl_ca_certs={proxy.certificate}"
            yield server


def _arrived(server: OwnValkey, *, key: str = "list") -> list[str]:
    return list(reversed(server.client.lrange(key, 0, -1)))  # type: ignore[arg-type]


def test_commands_arrive_in_order(reached: OwnValkey) -> None:
    wanted = [str(n) for n in range(3 * valkey._MOST_UNREAD)]
    for text in wanted:
        valkey.post("LPUSH", "list", text)
    until(lambda: _arrived(reached) == wanted)


def test_a_killed_server_costs_no_later_command(reached: OwnValkey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(valkey, "_UNREAD_SECONDS", 0.0)  # as if the last command was a second ago
    valkey.post("LPUSH", "list", "before")
    until(lambda: _arrived(reached) == ["before"])
    reached.kill()
    valkey.post("LPUSH", "list", "lost")
    reached.start()
    valkey.post("LPUSH", "list", "after")
    until(lambda: _arrived(reached) == ["after"])


@pytest.fixture
def near(server: OwnValkey, clients: None, tmp_path: Path, settings: Settings) -> OwnValkey:
    """Return the server, which this process reaches at its Unix socket."""
    settings.KOMAND_REDIS_URL = f"unix://{tmp_path}/own.sock"
    return server


def test_a_refused_command_is_logged_and_costs_no_other(near: OwnValkey, caplog: pytest.LogCaptureFixture) -> None:
    near.client.set("text", "no list")
    with caplog.at_level(logging.WARNING):
        for n in range(valkey._MOST_UNREAD + 1):
            valkey.post("LPUSH", "list" if n else "text", str(n))
    assert "a command was refused by Valkey: WRONGTYPE" in caplog.text
    until(lambda: len(_arrived(near)) == valkey._MOST_UNREAD)


def test_a_server_that_hangs_is_left_alone_after_a_while(
    clients: None, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(valkey, "_UNREAD_SECONDS", 0.0)
    with hanging_server(tmp_path / "hangs.sock") as url:
        settings.KOMAND_REDIS_URL = f"{url}?protocol=2"  # else it would ask before the first command
        monkeypatch.setattr(valkey, "_ANSWER_SECONDS", 0.6)
        valkey.post("LPUSH", "list", "1")
        valkey.post("LPUSH", "list", "2")
    assert valkey.breaker.is_open
    with monkeypatch.context() as patch:
        patch.setattr(valkey, "_sender", Mock(side_effect=AssertionError("it was used")))
        nudges.send("agents.advance_run", ("1",), queue="runs")


def test_threads_that_come_first_together_get_one_sender(clients: None, monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2, timeout=30)
    made = valkey._Sender

    def make() -> valkey._Sender:
        both.wait()  # neither has stored its own
        return made()

    monkeypatch.setattr(valkey, "_Sender", make)
    with ThreadPoolExecutor(2) as threads:
        first, second = [threads.submit(valkey._sender) for _ in range(2)]
    assert first.result() is second.result()


def test_several_threads_share_the_connection(near: OwnValkey) -> None:
    def work(name: str) -> None:
        for n in range(100):
            valkey.post("LPUSH", name, str(n))

    names = ("a", "b", "c", "d")
    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wanted = [str(n) for n in range(100)]
    until(lambda: all(_arrived(near, key=name) == wanted for name in names))


def test_a_forked_child_has_a_connection_of_its_own(near: OwnValkey) -> None:
    valkey.post("LPUSH", "list", "parent")
    with valkey._sender()._lock:  # as if another thread sent in the moment of the fork
        child = os.fork()
        if child == 0:
            valkey.post("LPUSH", "list", "child")
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    valkey.post("LPUSH", "list", "parent again")
    until(lambda: sorted(_arrived(near)) == ["child", "parent", "parent again"])


@pytest.mark.django_db(transaction=True)
def test_a_message_sends_its_nudge_and_its_hint_in_one_write(
    idle: EngineRig, clients: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[list[str]] = []

    def write(_: object, commands: list[tuple[str, ...]]) -> None:
        writes.append([command[0] for command in commands])

    idle.agent()
    monkeypatch.undo()  # the rig catches nudges
    monkeypatch.setattr(valkey._Sender, "write", write)
    idle.send()
    assert writes == [["LPUSH", "XADD"]]


def test_nothing_is_sent_if_what_follows_the_commit_is_cut_off(near: OwnValkey) -> None:
    def cut() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), valkey.in_one_write():
        valkey.post("LPUSH", "list", "held")
        cut()
    valkey.post("LPUSH", "list", "later")
    until(lambda: _arrived(near) == ["later"])
