"""Runs of workers that died: how the reaper logs and counts it."""

import logging
from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest

from agents_app.models import Run
from agents_app.runs import hooks
from agents_app.runs.reaper import Reaper
from audit_app.liveness import Observer
from sessions_app.services import open_session
from tests.support.engine import EngineRig

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def rig(valkey: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineRig]:
    monkeypatch.setattr(hooks, "sweeps", [])
    monkeypatch.setattr(Observer, "dead", lambda observer, owners: set(owners))
    rig = EngineRig(monkeypatch)
    rig.agent()
    yield rig
    rig.stop()


def hold(rig: EngineRig, count: int) -> list[UUID]:
    """Make runs that one process works on."""
    ids = [rig.send(session=open_session(owner=rig.owner)).run_id for _ in range(count)]
    hold_again(ids)
    return ids


def hold_again(ids: list[UUID]) -> None:
    Run.objects.filter(pk__in=ids).update(status="running", owner=uuid4(), ready_at=None, fence=1)


def test_the_last_crash_of_a_run_is_logged_as_its_end(rig: EngineRig, caplog: pytest.LogCaptureFixture) -> None:
    [run_id] = hold(rig, 1)
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
