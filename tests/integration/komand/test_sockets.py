"""The command `sockets`: without Django, ended by a signal or by itself."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from komand import sockets
from komand.supervisor import process_specs
from tests.support.live_server import wait_for

ROOT = Path(__file__).parents[3]


def test_it_loads_no_django_and_takes_no_settings() -> None:
    program = (
        "import sys, komand.sockets; sys.exit(sorted({'django', 'celery', 'redis', 'pydantic'} & {*sys.modules}) or 0)"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0


def test_the_supervisor_gives_it_no_secrets() -> None:
    secret = {"DATABASE_URL": "x", "REDIS_URL": "x", "KOMAND_SECRET_KEY": "x", "KOMAND_DATA_DIR": "x"}
    spec = process_specs.sockets({**secret, "KOMAND_SOCKETS": "/s", "NOTIFY_SOCKET": "/n"})
    assert not secret.keys() & spec.environment.keys()
    assert spec.environment["KOMAND_SOCKETS"] == "/s"


def test_it_ends_when_no_account_needs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOMAND_SOCKETS", str(tmp_path / "s"))
    monkeypatch.setattr(sockets, "_IDLE_SECONDS", 0.05)
    monkeypatch.setattr("logging.config.dictConfig", lambda configuration: None)
    assert sockets.main(["--on-demand"]) == 0


@pytest.mark.parametrize("path", ["/dev/null/s", f"/tmp/{'x' * 200}"])
def test_a_path_that_cannot_be_served_is_an_error_of_one_line(path: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "komand.sockets"],
        cwd=ROOT,
        env={**os.environ, "KOMAND_SOCKETS": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    [line] = ended.stderr.splitlines()
    assert line.startswith(f"manage.py sockets: cannot serve at {path}: ") and "KOMAND_SOCKETS" in line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_by_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "s"
    environment = {**os.environ, "KOMAND_SOCKETS": str(path)}
    with subprocess.Popen([sys.executable, "manage.py", "sockets"], cwd=ROOT, env=environment) as process:
        wait_for(path.exists, 60, "the socket")
        assert path.stat().st_mode & 0o077 == 0
        process.send_signal(number)
        assert process.wait(60) == 0
