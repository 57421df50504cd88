"""Two hosts with copies of one data folder instead of one that they share: each reports it, and what is lost by it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.fakes.model_server import ModelServer
from tests.support.changed_settings import RATES
from tests.support.live_server import ROOT, wait_for
from tests.support.postgres import find_install, run_postgres
from tests.support.units import Units, own_valkey

pytestmark = [
    pytest.mark.whole,
    pytest.mark.timeout(400),
    pytest.mark.skipif(find_install() is None, reason="no PostgreSQL for this platform"),
]

_CONTENT = b"a report"
_COPIED = "not shared with "


class Host:
    """A host with the units and the data folder of its own."""

    def __init__(self, folder: Path, settings: Mapping[str, str], names: tuple[str, ...]) -> None:
        folder.mkdir()
        self.folder = folder
        self.units = Units(folder, {**settings, "KOMAND_DATA_DIR": str(folder / "data")}, names)

    def manage(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        environment = {"PATH": os.environ["PATH"], **self.units.settings}
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)


class Caller:
    """admin, with one token for both hosts."""

    def __init__(self, host: Host, password: str) -> None:
        login = {"email": "admin@localhost", "password": password}
        self._headers: dict[str, str] = {}
        token = self._send(host, "/api/auth/login", json=login)["token"]
        self._headers = {"Authorization": f"Bearer {token}"}

    def upload(self, host: Host) -> str:
        """Return the address of a file that is uploaded at this host into a session."""
        body = {"senderId": "admin", "text": "[[tokens=3]]", "agentId": "default"}
        self._send(host, "/api/webchat/message", {"Prefer": "respond-async"}, json=body)
        [session] = self.get(host, "/api/sessions").json()["data"]
        path = f"/api/sessions/{session['sessionId']}/artifacts?path=files/report.txt"
        found = self._send(host, path, {"Content-Type": "text/plain"}, content=_CONTENT)
        return f"/api/artifacts/{found['artifactId']}"

    def get(self, host: Host, path: str) -> "httpx2.Response":
        return httpx2.get(f"{host.units.url}{path}", headers=self._headers, timeout=60)

    def _send(self, host: Host, path: str, headers: Mapping[str, str] | None = None, **body: Any) -> Any:
        given = {**self._headers, **(headers or {})}
        answer = httpx2.post(f"{host.units.url}{path}", headers=given, timeout=60, **body)
        assert answer.status_code < 300, answer.text
        return answer.json()["data"]


@contextmanager
def two_hosts(folder: Path, model_server: ModelServer) -> Iterator[tuple[Host, Host, str]]:
    """Yield a host with web and runs worker, one with web, tools worker and a copy of its folder, and the password."""
    given = {"OPENAI_BASE_URL": model_server.base_url, "OPENAI_API_KEY": "nobody", "KOMAND_MODEL": "fake", **RATES}
    with run_postgres() as url, own_valkey(folder) as place:
        settings = {**given, "DATABASE_URL": url, "REDIS_URL": f"unix://{place}?db=0"}
        first = Host(folder / "first", settings, ("komand-web", "komand-runs@1"))
        second = Host(folder / "second", settings, ("komand-web", "komand-tools"))
        try:
            password = json.loads(first.units.start(ROOT).splitlines()[-1])["login"]["password"]
            shutil.copytree(folder / "first/data", folder / "second/data")
            second.units.start(ROOT)
            yield first, second, password
        finally:
            second.units.stop()
            first.units.stop()


def test_hosts_with_copies_of_one_folder_are_named_everywhere(tmp_path: Path, model_server: ModelServer) -> None:
    with two_hosts(tmp_path, model_server) as (first, second, password):
        expect_reports(first, "tools on ")
        # The copy has the files of the processes that ran before it: this host misses those of later ones at once, and
        # notices after two minutes that the others stand still.
        first.units.replace_one("komand-runs@1", ROOT)
        expect_reports(second, "runs on ")
        caller = Caller(first, password)
        address = caller.upload(first)
        assert caller.get(first, address).content == _CONTENT
        assert caller.get(second, address).status_code == 404
        for host, code in ((first, 0), (second, 1)):
            backup = host.manage("backup", str(host.folder / "backup"))
            assert (backup.returncode, backup.stdout.count("missing: ")) == (code, code), backup.stderr
            invariants = host.manage("check_invariants", "--grace", "1")
            assert invariants.returncode == code, invariants.stdout + invariants.stderr


def expect_reports(host: Host, stranger: str) -> None:
    """Wait until log, readiness and doctor of the host name a process of the other one."""
    wait_for(lambda: stranger in _readiness(host), 60, "the readiness")
    wait_for(lambda: _COPIED in host.units.log.read_text(), 120, "the log")
    doctor = host.manage("doctor")
    assert doctor.returncode == 1 and _COPIED in doctor.stdout and stranger in doctor.stdout, doctor.stdout


def _readiness(host: Host) -> str:
    """Return what it reports of the data folder. It goes on serving, because each host would find the same."""
    answer = httpx2.get(f"{host.units.url}/health/ready", timeout=60)
    assert answer.status_code == 200
    return str(answer.json()["data"]["checks"].get("data_folder", ""))
