"""A real Celery worker on the real broker: results, limits, kills, and the sweeper's work."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from django.db import connection

from audit_app.kernel import liveness
from tests.integration.tools_app.worker_tools import Misbehave, SleepAgain, SleepOnce
from tests.support.live_server import ROOT, wait_for
from tools_app import conf, selectors, services
from tools_app.registry import tools
from tools_app.types import ExecutionStatus

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


@contextmanager
def started_worker(**variables):
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.integration.tools_app.worker_settings",
        "KOMAND_TEST_DATABASE_NAME": str(connection.settings_dict["NAME"]),
        **variables,
    }
    command = [sys.executable, "-m", "komand.worker", "-Q", "tools", "-P", "prefork"]
    process = subprocess.Popen([*command, "-c", "2"], cwd=ROOT, env=environment, start_new_session=True)
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def worker(valkey_server, django_db_setup, django_db_blocker):
    with django_db_blocker.unblock(), started_worker() as process:
        yield process


@pytest.fixture(autouse=True)
def _sleepers(monkeypatch, worker):
    """Register the worker's tools for the planner, and shorten the hard limits."""
    monkeypatch.setattr(conf, "GRACE_SECONDS", 1)
    monkeypatch.setattr(conf, "KILL_SLACK_SECONDS", 1)
    with tools.override(SleepOnce(), SleepAgain(), Misbehave()):
        yield


@pytest.fixture
def sweep_until():
    """Sweep until the execution has that status."""
    observer = liveness.Observer()

    def sweep_for(execution_id, status, seconds=60):
        def has_it():
            services.sweep(observer)
            found = selectors.get_execution(execution_id)
            assert found.status is status or not found.status.is_terminal, found
            return found.status is status and found

        return wait_for(has_it, seconds, f"status {status}", every=0.2)

    return sweep_for


@pytest.fixture
def sleep(plan, tmp_path):
    """Return a call that sleeps in the worker: execution, id of its process, ledger."""

    def begin(tool, **arguments):
        ledger = tmp_path / tool
        (execution,) = plan((tool, json.dumps({"ledger": str(ledger), **arguments})))
        wait_for(lambda: ledger.exists() and ledger.read_text().endswith("\n"), 60, "the tool's beginning")
        return execution, int(ledger.read_text()), ledger

    return begin


def test_a_planned_call_is_run_by_the_worker(plan):
    (execution,) = plan(("calculator", '{"expression": "17*23"}'))
    done = wait_for(
        lambda: (found := selectors.get_execution(execution.id)).status.is_terminal and found, 60, "a result"
    )
    assert json.loads(done.output)["result"] == "391"


def test_a_tool_past_its_soft_limit_is_timed_out(sleep, sweep_until, monkeypatch):
    monkeypatch.setattr(conf, "GRACE_SECONDS", 60)  # so long nobody else says it, and nobody kills it
    execution, pid, _ = sleep("sleep_once", timeout_seconds=1)
    done = sweep_until(execution.id, ExecutionStatus.TIMED_OUT)
    assert done.error == "The call did not finish within 1 seconds."
    os.kill(pid, 0)


def test_a_tool_past_its_hard_limit_is_killed_and_seen_as_timed_out(sleep, sweep_until):
    execution, pid, _ = sleep("sleep_once", timeout_seconds=1, stubborn=True)
    sweep_until(execution.id, ExecutionStatus.TIMED_OUT)
    wait_for(lambda: not is_running(pid), 60, "the end of the process")


def test_after_a_kill_a_once_call_is_unknown_and_a_read_call_is_run_again(sleep, sweep_until):
    once, once_pid, once_ledger = sleep("sleep_once")
    again, again_pid, again_ledger = sleep("sleep_again")
    os.kill(once_pid, signal.SIGKILL)
    os.kill(again_pid, signal.SIGKILL)
    sweep_until(once.id, ExecutionStatus.UNKNOWN)
    assert sweep_until(again.id, ExecutionStatus.COMPLETED).output == '"slept"'
    assert (lines(once_ledger), lines(again_ledger)) == (1, 2)


def test_a_cancelled_call_has_its_process_killed(sleep):
    execution, pid, _ = sleep("sleep_again")
    assert services.cancel_execution(execution.id)
    wait_for(lambda: not is_running(pid), 60, "the end of the process")
    assert selectors.get_execution(execution.id).status is ExecutionStatus.CANCELLED


@pytest.mark.whole  # it waits for twenty seconds of silence
@pytest.mark.timeout(300)
def test_a_worker_whose_consumer_hangs_sends_no_more_watchdog_messages(tmp_path):
    """It would take no calls, and nothing else notices: its children and threads go on."""
    place = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(place))
        notify.settimeout(60)
        with started_worker(NOTIFY_SOCKET=str(place), WATCHDOG_USEC="8000000") as process:
            assert notify.recv(100).startswith(b"READY=1")
            for _ in range(10):
                assert notify.recv(100).startswith(b"WATCHDOG=1")
            process.send_signal(signal.SIGUSR2)
            notify.settimeout(8)  # the supervisor's limit
            with pytest.raises(TimeoutError):
                for _ in range(10):
                    notify.recv(100)
            assert process.poll() is None


@pytest.mark.parametrize("refusal", ["READONLY", "NOREPLICAS"])
def test_a_worker_goes_on_after_valkey_has_refused_its_commands(plan, worker, valkey, refusal):
    """It answers so in a failover; with MISCONF, which is treated alike, while it cannot write its file."""

    def has_refused():
        assert worker.poll() is None, "the worker has ended"
        return valkey.info("errorstats").get(f"errorstat_{refusal}", {"count": 0})["count"] > 3

    valkey.config_resetstat()
    try:
        if refusal == "READONLY":
            valkey.replicaof("127.0.0.1", 1)
        else:
            valkey.config_set("min-replicas-to-write", 1)
        wait_for(has_refused, 60, "several refused commands")
    finally:
        valkey.replicaof("NO", "ONE")
        valkey.config_set("min-replicas-to-write", 0)
    test_a_planned_call_is_run_by_the_worker(plan)
    assert worker.poll() is None


@pytest.mark.parametrize("how", ["print", "fork", pytest.param("ignore", marks=pytest.mark.whole)])
def test_a_tool_that_misbehaves_for_ever_is_ended_and_its_worker_goes_on(sleep, sweep_until, plan, how):
    execution, pid, _ = sleep("misbehave", how=how, timeout_seconds=1)
    sweep_until(execution.id, ExecutionStatus.TIMED_OUT)
    (after,) = plan(("calculator", '{"expression": "6*7"}'))
    assert json.loads(sweep_until(after.id, ExecutionStatus.COMPLETED).output)["result"] == "42"
    assert selectors.get_execution(execution.id).output is None


def lines(ledger: Path) -> int:
    return len(ledger.read_text().splitlines())


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
