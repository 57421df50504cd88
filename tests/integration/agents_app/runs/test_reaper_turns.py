"""One process of an installation sweeps for all; each one nudges its own engine."""

from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import pytest
from django.db.models.functions import Now

from agents_app.models import Run
from agents_app.runs import hooks
from agents_app.runs.reaper import Reaper
from audit_app.kernel import liveness
from audit_app.kernel.liveness.process_marks import Mark, Traits
from audit_app.kernel.liveness.store import installed_marks
from tests.support.engine import EngineRig, until

pytestmark = [pytest.mark.django_db(transaction=True)]


@pytest.fixture
def swept(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return the passes of a part that always has something to do."""
    swept: list[object] = []
    monkeypatch.setattr(hooks, "sweeps", [hooks.Sweep(swept.append)])
    return swept


@pytest.fixture
def older(idle: EngineRig) -> Iterator[Mark]:
    """Yield the mark of an older process that sweeps; this one has its heartbeat."""
    liveness.start("runs")
    mark = installed_marks().open(UUID(int=1), "web")
    mark.beat(1, Traits(sweeps=True))
    yield mark
    mark.close()
    liveness.stop()


def test_a_process_behind_an_older_one_only_nudges_its_engine(
    idle: EngineRig, older: Mark, swept: list[object]
) -> None:
    idle.agent()
    run_id = idle.send().run_id
    Run.objects.update(ready_at=Now() - timedelta(minutes=1))
    nudged: list[UUID] = []
    Reaper(nudged.append).take_turn()
    assert (nudged, swept) == ([run_id], [])


def test_the_next_process_sweeps_as_soon_as_the_older_one_ends(older: Mark, swept: list[object]) -> None:
    behind = Reaper(lambda run_id: None)
    behind.take_turn()
    assert not swept
    older.close()
    behind.take_turn()
    assert len(swept) == 1


def test_a_process_that_drains_leaves_the_sweeps_to_another(older: Mark, swept: list[object]) -> None:
    behind = Reaper(lambda run_id: None)
    behind.take_turn()
    older.beat(2)  # it has ended its reaper, and still owns runs
    behind.take_turn()
    assert len(swept) == 1


def test_an_engine_shows_while_it_sweeps(rig: EngineRig) -> None:
    own = liveness.current()
    until(lambda: own in installed_marks().look([]))
    assert rig.engine and rig.engine._reaping
    rig.engine._loop.call_soon_threadsafe(rig.engine._reaping.cancel)
    until(lambda: own not in installed_marks().look([]))
