"""A whole installation whose data folder is on a disk without room."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.chaos.live_faults_support import Installation, open_installation
from tests.fakes.model_server import ModelServer
from tests.support.live_server import wait_for

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

_FULL = {"storage": "full; make room on the disk of the data folder", "valkey": "read-only; make room on its disk"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MB."""
    place = tmp_path / "data"
    place.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m,mode=700", "tmpfs", str(place)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", b"").decode().strip() or error
        pytest.skip(f"this user or container may not mount a file system ({said}): a full disk is NOT tested")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@contextmanager
def filled(place: Path) -> Iterator[None]:
    file = place / "filler"
    try:
        with suppress(OSError), file.open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
        yield
    finally:
        file.unlink()


def problems(host: Installation) -> dict[str, str]:
    """Return what `/health/ready` says of parts that are not well."""
    checks = httpx2.get(f"{host.komand.url}/health/ready", timeout=30).json()["data"]["checks"]
    return {name: state for name, state in checks.items() if state != "ok"}


def test_a_full_disk_ends_no_process_and_costs_no_answer(small_disk: Path, model_server: ModelServer) -> None:
    with open_installation(small_disk.parent, model_server) as host:
        kinds = ("valkey", "web", "runs", "tools")
        processes = [host.pids(kind) for kind in kinds]
        headers = {"Authorization": f"Bearer {host.komand.access_token()}"}
        message = {"senderId": "admin", "text": "x" * 3000}
        seen: list[dict[str, Any]] = []
        running = host.send("[[tokens=20 hold=10]]")
        viewer = host.watch(running.session_id, seen.append)
        wait_for(lambda: any(act["do"] == "text" for act in seen), 60, "text")
        with filled(small_disk):
            url = f"{host.komand.url}/api/webchat/message"
            refused = httpx2.post(url, json=message, headers=headers, timeout=30)
            assert (refused.status_code, refused.json()["meta"]["code"]) == (503, "storage_full")
            wait_for(lambda: problems(host) == _FULL, 60, "a Valkey that cannot write")
            model_server.go_on()
            doctor = host.komand.manage("doctor").stdout
            assert "→ make room on the disk of the data folder" in doctor and f"→ {_FULL['valkey']}" in doctor
            assert {part["health"] for part in host.komand.status()["processes"]} <= {"ok", "idle", "answers 503"}
        freed = time.monotonic()
        run = host.wait_ended(running.run_id)
        assert (run["status"], run["fence"], run["crashes"]) == ("completed", 1, 0)
        assert run["answer"] == "".join(f"tok{number} " for number in range(20))
        assert wait_for(lambda: viewer.answers.get(str(running.run_id)), 60, "the answer") == run["answer"]
        viewer.stop()
        wait_for(lambda: not problems(host), 60, "an installation that is ready")
        assert host.wait_ended(host.send("what is 17*23?").run_id)["status"] == "completed"
        sys.stdout.write(f"\nall is well {time.monotonic() - freed:.1f} s after there is room\n")
        assert [host.pids(kind) for kind in kinds] == processes
        host.check_invariants()
