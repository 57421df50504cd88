"""Single faults of a whole installation: each process killed, stopped or restarted in the middle of work.

Takes minutes: run by `make chaos`. On SQLite, or on PostgreSQL when KOMAND_TEST_DATABASE_URL is set.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psycopg
import pytest

from tests import on_postgres
from tests.chaos import recovery
from tests.chaos.fire import Fire, Watching, open_fire
from tests.conftest import _fresh_database
from tests.fakes.model_server import ModelServer
from tests.live import ROOT, wait_for
from tests.postgres import find_install, run_postgres

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

TOKENS = 120
ANSWER = f"[[tokens={TOKENS} rate=20]]"
WHOLE = "".join(f"tok{number} " for number in range(TOKENS))


class SlowSite(ThreadingHTTPServer):
    """A site whose first answer never comes, and whose next ones do. count: requests so far."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _SlowPage)
        self.count = 0
        self.leave = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class _SlowPage(BaseHTTPRequestHandler):
    server: SlowSite

    def do_GET(self) -> None:
        self.server.count += 1
        if self.server.count == 1:
            self.server.leave.wait(60)
        with suppress(OSError):
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            self.wfile.write(b"here it is")

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


@pytest.fixture(scope="module")
def site() -> Iterator[SlowSite]:
    with SlowSite() as site:
        yield site
        site.leave.set()
        site.shutdown()


@pytest.fixture(scope="module")
def fire(tmp_path_factory: pytest.TempPathFactory, model_server: ModelServer, site: SlowSite) -> Iterator[Fire]:
    given = os.environ.get(on_postgres.VARIABLE, "")
    database = _fresh_database(given, "komand_chaos_faults") if given else ""
    environment = {"KOMAND_RUN_WORKERS": "2", "KOMAND_FETCH_ALLOW_PRIVATE": f"127.0.0.1:{site.server_port}"}
    with open_fire(tmp_path_factory.mktemp("faults"), model_server, database, **environment) as fire:
        yield fire


@pytest.fixture(autouse=True)
def _whole_afterwards(request: pytest.FixtureRequest) -> Iterator[None]:
    fire = request.getfixturevalue("fire")
    fire.wait_well()
    yield
    fire.wait_well()
    fire.check_invariants()


def test_a_killed_worker_is_noticed_in_3_seconds_and_its_run_moves_on_in_6(fire: Fire) -> None:
    found = recovery.measure_many(fire, 4)
    sys.stdout.write("\n" + recovery.table("two run workers", found) + "\n")
    assert max(one.noticed for one in found) <= 4
    assert max(one.moving for one in found) <= 6


def test_every_viewer_ends_with_the_stored_text_after_a_kill(fire: Fire) -> None:
    sent = fire.send(ANSWER)
    viewers = [Watching(fire, sent.session_id, fire.page_cookie()).start() for _ in range(3)]
    fire.wait_text(sent.run_id)
    fire.strike_holder(sent.run_id)
    viewers[0].drop()
    assert fire.wait_ended(sent.run_id)["answer"] == WHOLE
    for viewer in viewers:
        assert wait_for(lambda one=viewer: one.answers.get(str(sent.run_id)), 10, "the answer") == WHOLE
        viewer.stop()


def test_a_stopped_worker_is_replaced_in_10_seconds_and_writes_nothing_when_it_wakes(fire: Fire) -> None:
    sent = fire.send("[[tokens=300 rate=20]]")
    fire.wait_text(sent.run_id)
    stopped = fire.strike_holder(sent.run_id, signal.SIGSTOP)
    stopped_at = time.monotonic()
    try:
        wait_for(lambda: fire.run(sent.run_id)["fence"] >= 2, 30, "another claim")
        took = time.monotonic() - stopped_at
        fire.wait_text(sent.run_id, fence=2)
        before = [entry for fence, entry in fire.entries(sent.run_id) if fence == 1]
    finally:
        with suppress(ProcessLookupError):  # its supervisor has replaced it by now, or it wakes up as a zombie
            os.kill(stopped, signal.SIGCONT)
    run = fire.wait_ended(sent.run_id)
    assert (run["status"], run["fence"]) == ("completed", 2)
    assert [entry for fence, entry in fire.entries(sent.run_id) if fence == 1] == before
    assert took <= 10


def test_a_stopped_process_is_replaced_even_when_it_is_the_only_one_of_its_kind(
    tmp_path: Path, model_server: ModelServer
) -> None:
    with open_fire(tmp_path, model_server) as fire:
        sent = fire.send(ANSWER)
        fire.wait_text(sent.run_id)
        fire.strike("runs", signal.SIGSTOP)
        stopped_at = time.monotonic()
        fire.wait_text(sent.run_id, fence=2)
        took = time.monotonic() - stopped_at
        fire.wait_ended(sent.run_id)
        web = fire.strike("web", signal.SIGSTOP)
        fire.komand.wait_healthy("web", other_than=web)
        tools = fire.strike("tools", signal.SIGSTOP)
        fire.komand.wait_healthy("tools", other_than=tools)
        assert fire.wait_ended(fire.send("what is 17*23?").run_id)["status"] == "completed"
        assert took <= 10
        sys.stdout.write(f"\nmoving {took:.1f} s after SIGSTOP of the only worker\n")


@pytest.mark.parametrize("how", ["killed", "flushed"])
def test_without_its_valkey_a_run_ends_and_viewers_have_all_of_it(fire: Fire, how: str) -> None:
    sent = fire.send(ANSWER)
    viewer = Watching(fire, sent.session_id, fire.page_cookie()).start()
    fire.wait_text(sent.run_id)
    if how == "killed":
        fire.strike("valkey")
    else:
        with fire.valkey() as client:
            client.flushall()
    run = fire.wait_ended(sent.run_id)
    assert (run["status"], run["answer"], run["fence"]) == ("completed", WHOLE, 1)
    assert wait_for(lambda: viewer.answers.get(str(sent.run_id)), 10, "the answer") == WHOLE
    viewer.stop()


def test_a_killed_web_process_costs_a_run_nothing(fire: Fire) -> None:
    sent = fire.send(ANSWER)
    viewer = Watching(fire, sent.session_id, fire.page_cookie()).start()
    fire.wait_text(sent.run_id)
    fire.strike("web")
    run = fire.wait_ended(sent.run_id)
    assert (run["status"], run["answer"], run["fence"]) == ("completed", WHOLE, 1)
    assert wait_for(lambda: viewer.answers.get(str(sent.run_id)), 15, "the answer") == WHOLE
    viewer.stop()


@pytest.mark.parametrize("kind", ["tool", "tools"])
def test_a_call_whose_process_is_killed_is_made_again(fire: Fire, site: SlowSite, kind: str) -> None:
    site.count = 0
    sent = fire.send(f'[[tool=web_fetch args={{"url":"{site.url}"}}]]')
    wait_for(lambda: site.count == 1, 20, "the call")
    for pid in fire.pids(kind):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    run = fire.wait_ended(sent.run_id, 40)
    [execution] = fire.executions(sent.run_id)
    assert (run["status"], execution["status"], execution["attempts"], site.count) == ("completed", "Completed", 2, 2)


def test_a_rolling_restart_of_the_workers_costs_no_run_and_counts_no_crash(fire: Fire) -> None:
    told_before = len(fire.komand.log.read_text())
    sent = [fire.send("[[tokens=240 rate=20]]") for _ in range(12)]
    for one in sent:
        fire.wait_text(one.run_id)
    for index in (0, 1, 0, 1):
        pid = fire.strike("runs", signal.SIGTERM, index=index)
        wait_for(lambda gone=pid: gone not in fire.pids("runs"), 20, "the end of the worker")
        fire.wait_well()
    runs = [fire.wait_ended(one.run_id, 90) for one in sent]
    assert [run["status"] for run in runs] == ["completed"] * len(runs)
    assert "lost its worker" not in fire.komand.log.read_text()[told_before:]
    assert all(run["crashes"] == 0 for run in runs)


@pytest.mark.skipif(find_install() is None, reason="no PostgreSQL for this platform")
@pytest.mark.parametrize("offset", ["-1h", "+1h"])
def test_a_worker_whose_clock_is_an_hour_off_neither_kills_nor_doubles_a_run(
    tmp_path: Path, model_server: ModelServer, offset: str
) -> None:
    """On PostgreSQL, where processes may be on machines of their own; with SQLite they all have the same clock."""
    if shutil.which("faketime") is None:
        pytest.skip("faketime is not installed (Debian: apt-get install faketime): clocks that differ are NOT tested")
    told = tmp_path / "told.txt"
    with run_postgres() as url, open_fire(tmp_path, model_server, url) as fire, skewed_worker(fire, offset, told):
        answering = [fire.send(ANSWER) for _ in range(6)]
        calling = [fire.send("what is 17*23?") for _ in range(6)]
        runs = [fire.wait_ended(one.run_id) for one in (*answering, *calling)]
        assert [(run["status"], run["crashes"]) for run in runs] == [("completed", 0)] * 12
        assert {run["answer"] for run in runs[:6]} == {WHOLE}
        assert {one["attempts"] for sent in calling for one in fire.executions(sent.run_id)} == {1}
        assert all(run["fence"] == 1 for run in runs[:6]) and all(run["fence"] == 2 for run in runs[6:])
        assert "lost its worker" not in fire.komand.log.read_text() + told.read_text()
        stopped = fire.strike("runs", signal.SIGSTOP)  # so that this message is the skewed worker's
        assert fire.wait_ended(fire.send("[[tokens=5]]").run_id, 7)["status"] == "completed"
        os.kill(stopped, signal.SIGCONT)
        fire.check_invariants()


@contextmanager
def skewed_worker(fire: Fire, offset: str, log: Path) -> Iterator[None]:
    """One more runs worker, whose clock is wrong."""
    environment = {
        **fire.komand.environment, "KOMAND_DATA_DIR": str(fire.komand.data_dir), "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DJANGO_SETTINGS_MODULE": "komand.settings.worker",
    }  # fmt: skip
    command = ["faketime", "-f", offset, sys.executable, "-m", "celery", "-q", "-A", "komand.celery", "worker"]
    with log.open("wb") as out:
        worker = subprocess.Popen(
            [*command, "-n", "skewed@%h", "-Q", "runs", "-P", "solo"],
            cwd=ROOT, env=environment, stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
    try:
        wait_for(lambda: len(fire.rows("SELECT 1 FROM komand_process_life WHERE name = 'runs'")) == 2, 30, "the worker")
        yield
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


@pytest.mark.skipif(find_install() is None, reason="no PostgreSQL for this platform")
def test_a_crash_of_postgresql_costs_no_answer(tmp_path: Path, model_server: ModelServer) -> None:
    with run_postgres() as url:
        make_durable(url)
        _crash_in_an_answer(url, tmp_path, model_server)


def _crash_in_an_answer(url: str, folder: Path, model: ModelServer) -> None:
    with open_fire(folder, model, url) as fire:
        sent = fire.send(ANSWER)
        viewer = Watching(fire, sent.session_id, fire.page_cookie()).start()
        fire.wait_text(sent.run_id)
        crash_postgres(url)
        run = fire.wait_ended(sent.run_id)
        assert (run["status"], run["answer"]) == ("completed", WHOLE)
        assert wait_for(lambda: viewer.answers.get(str(sent.run_id)), 15, "the answer") == WHOLE
        viewer.stop()
        again = fire.send("[[tokens=5]]")
        assert fire.wait_ended(again.run_id, 15)["status"] == "completed"
        fire.check_invariants()


def make_durable(url: str) -> None:
    """Let the server, unlike those of other tests, keep what it has committed when it crashes."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER DATABASE postgres SET synchronous_commit = on")


def crash_postgres(url: str) -> None:
    """Kill one of its processes: the server then ends all others at once and recovers from its log."""
    with psycopg.connect(url, autocommit=True) as connection:
        os.kill(connection.info.backend_pid, signal.SIGKILL)

    def answers() -> bool:
        with suppress(psycopg.OperationalError):
            psycopg.connect(url, connect_timeout=2).close()
            return True
        return False

    wait_for(answers, 20, "PostgreSQL")
