"""Two hosts that share no folder: one database, one Valkey, and a bucket that has the files, also while it is away."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.fakes.model_server import ModelServer
from tests.installed.deployed import start_servers
from tests.support.bucket_server import BucketServer
from tests.support.live_server import ROOT
from tests.support.units import Units, free_port

pytestmark = [pytest.mark.whole, pytest.mark.timeout(600)]

NAMES = ("komand-web", "komand-tools", "komand-runs@1")
SECRETS = ("KOMAND_SECRET_KEY", "KOMAND_VAULT_KEYS", "KOMAND_RECEIPT_KEYS", "KOMAND_JWT_KEY")
SECONDS = 120  # generous: each answer ends the wait
NOTES, REPORT = "The word is heron.", "Sold: 17 boats."
READ = ["read_artifact", {"path": "files/notes.txt"}]
WRITE = ["write_artifact", {"path": "out/report.txt", "content": REPORT}]


class Host:
    """A host with its units and a data folder of its own."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        folder.mkdir()
        self.data = folder / "data"
        own = {"KOMAND_DATA_DIR": str(self.data), "KOMAND_SOCKETS": str(folder / "sockets.sock")}
        self.units = Units(folder, {**settings, **own}, NAMES)
        self.key = ""

    def manage(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        environment = {"PATH": os.environ["PATH"], **self.units.settings}
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS)

    def stop_workers(self) -> None:
        for unit in (*self.units.of("komand-runs"), *self.units.of("komand-tools")):
            unit.stop()

    def request(self, method: str, path: str, **body: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {self.key}", **body.pop("headers", {})}
        return httpx2.request(method, self.units.url + path, headers=headers, timeout=SECONDS, **body)

    def upload(self) -> httpx2.Response:
        text = {"Content-Type": "text/plain"}
        return self.request("POST", "/api/attachments?filename=notes.txt", content=NOTES.encode(), headers=text)

    def send(self, text: str, *files: str) -> httpx2.Response:
        body = {"senderId": "admin", "text": text, "attachments": list(files)}
        return self.request("POST", "/api/webchat/message", json=body)

    def list_reports(self) -> list[str]:
        """Return the addresses of all files that agents have written."""
        sessions = [one["sessionId"] for one in self.request("GET", "/api/sessions").json()["data"]]
        found = [self.request("GET", f"/api/sessions/{one}/artifacts").json()["data"] for one in sessions]
        return [file["url"] for files in found for file in files if file["path"].startswith("out/")]


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[BucketServer]:
    with BucketServer(tmp_path / "buckets", free_port()) as started:
        yield started


@pytest.fixture
def hosts(tmp_path: Path, bucket: BucketServer, model_server: ModelServer) -> Iterator[tuple[Host, Host]]:
    own = {"OPENAI_BASE_URL": model_server.base_url, "OPENAI_API_KEY": "key-of-nobody", "KOMAND_MODEL": "fake"}
    own |= {name: secrets.token_urlsafe(48) for name in SECRETS}
    with start_servers(tmp_path) as servers, ExitStack() as running:
        settings = {**servers, **own, **bucket.settings, "KOMAND_PUBLIC_URL": "", "KOMAND_WAIT_SECONDS": str(SECONDS)}
        first, second = (Host(tmp_path / name, settings) for name in ("first", "second"))
        for host in (first, second):
            running.callback(host.units.stop)
            host.units.start(ROOT)
        first.key = second.key = first.manage(
            "create_api_key", "--user", "admin", "--name", "tests", "--scope", "all"
        ).stdout.strip()
        yield first, second
        checks = [second.manage(command) for command in ("check_invariants", "verify_receipts")]
        assert not any(check.returncode for check in checks), [(check.stdout, check.stderr) for check in checks]


def test_files_of_one_host_are_used_at_the_other(
    hosts: tuple[Host, Host], bucket: BucketServer, model_server: ModelServer, tmp_path: Path
) -> None:
    first, second = hosts
    examined = second.manage("doctor")
    assert "shared data folder" not in examined.stdout and "stores, lists, returns and deletes them" in examined.stdout
    first.stop_workers()
    file = first.upload().json()["data"]["attachmentId"]
    answer = first.send(f"read it and report [[tools={json.dumps([READ, WRITE])}]]", file)
    assert answer.status_code == 200, answer.text
    results = [
        message for request in model_server.requests for message in request.messages if message["role"] == "tool"
    ]
    assert any(NOTES in str(message["content"]) for message in results), results
    for host in hosts:
        [address] = host.list_reports()
        report = host.request("GET", address)
        assert report.text == REPORT and report.headers["Content-Disposition"].startswith("attachment")
        ready = host.request("GET", "/health/ready")
        assert ready.status_code == 200 and "data_folder" not in ready.json()["data"]["checks"], ready.text
        assert not {"artifacts", "attachments", "hosts"} & {path.name for path in host.data.iterdir()}
    assert sum(path.is_file() for path in bucket.own_files.rglob("*")) == 2
    without_the_bucket(first, second, bucket, address)
    backup = second.manage("backup", str(tmp_path / "backup"))
    assert backup.returncode == 0 and "missing" not in backup.stdout, backup.stdout + backup.stderr


def without_the_bucket(first: Host, second: Host, bucket: BucketServer, address: str) -> None:
    """Stop the bucket's server: files are refused, messages are answered, and all works again when it is back."""
    waiting = second.upload().json()["data"]["attachmentId"]
    bucket.stop()
    for refused in (first.upload(), second.request("GET", address), first.send("look", waiting)):
        assert refused.status_code == 503 and "Try again in a few minutes" in refused.json()["error"], refused.text
    assert first.send('are you there? [[text="Yes."]]').json()["data"]["text"] == "Yes."
    assert first.request("GET", "/health/ready").status_code == 200
    examined = first.manage("doctor")
    assert examined.returncode and "Could not connect to the endpoint" in examined.stdout
    bucket.start()
    assert second.request("GET", address).text == REPORT
    assert first.send('look [[text="I see."]]', waiting).json()["data"]["text"] == "I see."
    assert first.upload().status_code == 200
