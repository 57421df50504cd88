"""`manage.py up` with real processes: start, status, restart, stop. Kills the processes that it started."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psutil
import pytest

from komand.supervisor import embedded, supervisor
from tests.support.live_server import ROOT, START_SECONDS, LiveKomand, clean_environment, start_komand, wait_for

FORKS = "forkserver"
pytestmark = [pytest.mark.whole, pytest.mark.one_database]


def alive(komand: LiveKomand) -> set[int]:
    """Return the processes of its last status that still run, and all others of its folder."""
    pids = {pid for pid in komand.seen if psutil.pid_exists(pid)}
    for process in psutil.process_iter():
        try:
            if process.environ().get("KOMAND_DATA_DIR") == str(komand.data_dir):
                pids.add(process.pid)
        except psutil.Error:
            continue
    return pids


def test_status_lists_every_part_with_its_health(live_komand: LiveKomand) -> None:
    status = live_komand.status()
    assert status["running"] and status["url"] == live_komand.url
    parts = {part["name"]: part for part in status["processes"]}
    children = {name for name in parts if name.startswith("tools/")}  # more than one while many tools run
    assert children and set(parts) - children == {"supervisor", "valkey", "web", FORKS, "runs-1", "tools", "sockets"}
    sockets = parts.pop("sockets")  # unless an account needs it, it does not run
    assert sockets["health"] in ("ok", "idle") and (sockets["pid"] is None) == (sockets["memory_bytes"] == 0)
    assert all(part["health"] == "ok" and part["memory_bytes"] > 1_000_000 for part in parts.values())


def test_doctor_finds_no_problem_in_a_running_installation(live_komand: LiveKomand) -> None:
    found = live_komand.manage("doctor", "--json")
    report = json.loads(found.stdout)
    assert found.returncode == 0 and report["ok"], report
    assert {"database", "valkey", "broker", "process web", "process runs", "process tools", "provider openai"} <= {
        finding["name"] for finding in report["findings"]
    }


def test_a_second_start_on_the_same_folder_is_refused(live_komand: LiveKomand) -> None:
    found = live_komand.manage("up", "--port", "0")
    assert found.returncode == 1
    assert found.stderr.count("\n") == 1 and "another Komand" in found.stderr


@pytest.mark.parametrize("name", ["web", "runs-1", "tools", "valkey", FORKS])
def test_a_killed_process_is_started_again(live_komand: LiveKomand, name: str) -> None:
    killed = live_komand.kill(name)
    live_komand.wait_healthy(name, other_than=killed)
    assert live_komand.part(name)["restarts"] >= 1  # type: ignore[index]
    assert live_komand.ask("what is 17*23?")["success"]


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux alone")
def test_a_killed_runs_worker_is_replaced_without_loading_its_code_again(live_komand: LiveKomand) -> None:
    """Processor time, since it is the same on a busy machine: loading takes nearly all of that until it is ready."""
    live_komand.wait_healthy("runs-1", other_than=live_komand.kill("runs-1"))
    ready, forks = (psutil.Process(live_komand.pid_of(name)) for name in ("runs-1", FORKS))
    assert ready.ppid() == live_komand.process.pid
    assert sum(ready.cpu_times()[:2]) < sum(forks.cpu_times()[:2]) / 2


def test_a_restart_replaces_every_process_and_refuses_no_request(live_komand: LiveKomand) -> None:
    before = {part["name"]: part["pid"] for part in live_komand.status()["processes"] if part["pid"]}
    answers: set[int] = set()
    over = threading.Event()

    def ask() -> None:
        while not over.wait(0.05):  # more often would slow the start down
            answers.add(httpx2.get(f"{live_komand.url}/health/ready", timeout=60).status_code)

    asking = threading.Thread(target=ask)
    asking.start()
    restarted = live_komand.manage("restart", seconds=START_SECONDS)
    over.set()
    asking.join()
    after = {part["name"]: part["pid"] for part in live_komand.status()["processes"]}
    assert restarted.returncode == 0, restarted.stderr
    kept = {
        name for name in before if after.get(name) == before[name]
    }  # a second child of the tools worker may have ended
    assert (kept, answers) == ({"supervisor", "valkey"}, {200})
    assert live_komand.ask("what is 17*23?")["success"]


def test_a_restart_without_a_running_installation_fails(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "manage.py", "restart", "--data-dir", str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert found.returncode == 3 and "is not running" in found.stdout


def test_a_stopped_process_is_shown_as_hung(live_komand: LiveKomand) -> None:
    # The supervisor too, which would kill the other one before a slow machine shows the status.
    stopped = [live_komand.process.pid, live_komand.pid_of("runs-1")]
    try:
        for one in stopped:
            os.kill(one, signal.SIGSTOP)
        assert live_komand.part("runs-1")["health"] == "hung"  # type: ignore[index]
    finally:
        for one in stopped:
            os.kill(one, signal.SIGCONT)
    live_komand.wait_healthy("runs-1")


@pytest.fixture
def own(tmp_path: Path) -> Iterator[LiveKomand]:
    """Start an installation that a test may stop; its path is too long for a socket."""
    komand = start_komand(tmp_path / ("a-long-folder-name" * 5))
    komand.status()
    yield komand
    for pid in alive(komand):
        os.kill(pid, signal.SIGKILL)


def test_an_idle_installation_is_small_and_ctrl_c_leaves_nothing_within_five_seconds(own: LiveKomand) -> None:
    assert len(alive(own)) >= 6
    assert sum(part["memory_bytes"] for part in own.status()["processes"]) < 400 * 1024 * 1024
    socket = Path((own.data_dir / "valkey" / "socket").read_text())
    assert own.stop() == 0
    # What each process is given before it is killed. The clock is for the benchmarks (startup) to ask.
    assert supervisor._HURRIED_SECONDS + supervisor._VALKEY_STOP_SECONDS < 5
    wait_for(lambda: not alive(own), 60, "the end of all processes")
    assert not socket.parent.exists()
    assert own.manage("status").returncode == 3


def test_processes_of_a_killed_supervisor_end_or_are_adopted_also_with_uvicorn(own: LiveKomand) -> None:
    """Its processes die with it. A Valkey that still runs is adopted by the next start, with its data."""
    own.process.kill()
    own.process.wait()
    wait_for(lambda: not alive(own), 60, "the end of all processes")
    socket = embedded.choose_socket(own.data_dir)
    binary = embedded.find_binary()
    assert binary
    with subprocess.Popen(embedded.command(binary, own.data_dir, socket), stdout=subprocess.DEVNULL) as survivor:
        again = start_komand(own.data_dir.parent, KOMAND_SERVER="uvicorn")
        try:
            assert again.part("web")["health"] == "ok"  # type: ignore[index]
            assert again.pid_of("valkey") == survivor.pid
            assert not again.password and "as before" in again.log.read_text()
        finally:
            assert again.stop() == 0
    wait_for(lambda: not alive(again), 60, "the end of all processes")


def test_a_part_that_cannot_start_ends_the_start_with_its_reason(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "manage.py", "up", "--data-dir", str(tmp_path / "data"), "--port", "0"],
        cwd=ROOT,
        env=clean_environment(KOMAND_RUN_SLOTS="many"),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.returncode == 1
    assert "KOMAND_RUN_SLOTS must be a whole number" in found.stdout
