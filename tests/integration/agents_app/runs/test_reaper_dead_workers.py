"""Runs of workers that died: how the reaper logs and counts it."""

import logging
from uuid import UUID, uuid4

import pytest

from agents_app.models import Run
from agents_app.runs import hooks
from agents_app.runs.reaper import Reaper
from audit_app.kernel.liveness import Observer
from sessions_app.services import open_session
from tests.support.engine import EngineRig

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _all_owners_dead(idle: EngineRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "sweeps", [])
    monkeypatch.setattr(Observer, "dead", lambda observer, owners: set(owners))
    idle.agent()


def hold(idle: EngineRig, count: int) -> list[UUID]:
    """Make runs that one process works on."""
    ids = [idle.send(session=open_session(owner=idle.owner)).run_id for _ in range(count)]
    hold_again(ids)
    return ids


def hold_again(ids: list[UUID]) -> None:
    Run.objects.filter(pk__in=ids).update(status="running", owner=uuid4(), ready_at=None, fence=1)


def test_the_last_crash_of_a_run_is_logged_as_its_end(idle: EngineRig, caplog: pytest.LogCaptureFixture) -> None:
    [run_id] = hold(idle, 1)
    sweeping = Reaper(lambda run_id: None)
    for _ in range(2):
        sweeping.sweep()
        hold_again([run_id])
    assert [record.levelname for record in caplog.records if "released" in record.message] == ["WARNING", "WARNING"]
    caplog.clear()
    sweeping.sweep()
    [record] = [record for record in caplog.records if str(run_id) in record.message]
    assert (record.levelno, "failed" in record.message, "released" in record.message) == (logging.ERROR, True, False)
    assert Run.objects.get().error_code == "crashed"


def test_workers_that_die_with_many_runs_fail_none_of_them_soon(idle: EngineRig) -> None:
    """At most one run can be to blame. Four of 1,089 innocent runs failed while workers were killed for ten minutes."""
    together = hold(idle, 4)
    sweeping = Reaper(lambda run_id: None)
    for _ in range(11):
        sweeping.sweep()
        hold_again(together)
    assert set(Run.objects.values_list("status", "crashes")) == {("running", 11)}
    sweeping.sweep()
    assert set(Run.objects.values_list("status", "error_code")) == {("failed", "crashed")}


def test_a_run_that_kills_every_worker_ends_in_whatever_company(idle: EngineRig) -> None:
    hold(idle, 30)
    sweeping = Reaper(lambda run_id: None)
    for _ in range(15):
        Run.objects.filter(ended_at=None).update(status="running", owner=uuid4(), ready_at=None, fence=1)
        sweeping.sweep()
    assert set(Run.objects.values_list("status", "crashes")) == {("failed", 15)}
