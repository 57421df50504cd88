"""The paths of a message stay short: at most so many files for a reader to open. The numbers may only go down."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents_app.runs import hooks, reaper, worker
from audit_app.kernel import liveness
from audit_app.kernel.database import close_pool
from audit_app.kernel.liveness import heartbeat
from sessions_app.channels.outbound import worker as outbox
from tests.architecture.traces import PATHS, Recorder, Scenarios
from tests.support.engine import EngineRig

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

MOST_FILES = {
    "webhook": 97,
    "answer": 61,
    "answer_with_a_tool": 88,
    "approval": 83,
    "launch": 75,
    "child_end": 63,
    "token": 24,
}


@pytest.fixture
def scenarios(request: pytest.FixtureRequest, valkey: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scenarios]:
    """Yield the scenarios on a gateway without background loops but that of the outbox."""

    async def nothing(*given: object) -> None: ...

    close_pool()  # its threads would not be traced
    monkeypatch.setattr(hooks, "chores", [outbox.run] if "webhook" in request.node.name else [])
    # It runs beside the run that asks, on a slow machine still when the decision comes.
    monkeypatch.setattr(hooks, "on_ask", [])
    for module, name in ((worker, "_repeat"), (reaper, "loop"), (liveness, "keep_pulse")):
        monkeypatch.setattr(module, name, nothing)
    monkeypatch.setattr(heartbeat, "_BEAT_SECONDS", 3600)
    recorder = Recorder()
    with recorder.open():
        rig = EngineRig(monkeypatch).start()
        yield Scenarios(rig, recorder)
        rig.stop()


@pytest.mark.parametrize("name", PATHS)
def test_a_path_enters_few_files(scenarios: Scenarios, name: str) -> None:
    trace = getattr(scenarios, name)()
    if folder := os.environ.get("KOMAND_TRACES"):  # of `tests.architecture.figures`
        Path(folder, f"{list(PATHS).index(name)}").write_text(f"| {PATHS[name]} | {trace} |\n")
    assert len(trace.files) <= MOST_FILES[name], "\n".join(sorted(trace.files))
