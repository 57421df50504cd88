"""The figures of the policy for data that leaves: attacks that succeed, and questions that ordinary tasks cost."""

from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from tests.security.taint.attacks import WAYS_IN, WAYS_OUT, Attack, attacks
from tests.security.taint.tasks import TASKS
from tests.security.taint.world import Gateway
from tests.support.engine import EngineRig
from tools_app.builtin.http_request import HttpRequest
from tools_app.policy import readings
from tools_app.registry import tools

pytestmark = pytest.mark.one_database

ATTACKS = tuple(attacks())
AUTONOMIES = ("readonly", "supervised", "full")
_SAMPLE = 8  # in `make test`: each eighth attack and task


@pytest.fixture
def gateway(transactional_db, valkey, monkeypatch, settings) -> Iterator[Gateway]:
    settings.KOMAND_HTTP_REQUEST_HOSTS = ["*.test"]
    with tools.override(HttpRequest()):
        rig = EngineRig(monkeypatch).start()
        yield Gateway(rig, monkeypatch)
        rig.stop()


@pytest.fixture
def unguarded(monkeypatch) -> pytest.MonkeyPatch:
    """Let sessions forget what they have read."""
    monkeypatch.setattr(readings, "list_origins", lambda session_id: ())
    return monkeypatch


def successes(gateway: Gateway, made: Iterable[Attack], autonomy: str) -> list[Attack]:
    return [attack for attack in made if attack.run(gateway, autonomy=autonomy)]


def test_there_are_enough_attacks_and_tasks() -> None:
    assert len(ATTACKS) >= 100 and len(TASKS) >= 50
    assert len({task.name for task in TASKS}) == len(TASKS)


def test_nothing_leaves_unapproved_in_a_sample(gateway: Gateway) -> None:
    assert successes(gateway, ATTACKS[::_SAMPLE], "supervised") == []


def test_attacks_succeed_without_the_guard(gateway: Gateway, unguarded: pytest.MonkeyPatch) -> None:
    """Each way in and each way out works: otherwise the other tests would prove nothing."""
    diagonal = [Attack(way_in, "web_fetch, query") for way_in in WAYS_IN]
    diagonal += [Attack("page", way_out) for way_out in WAYS_OUT]
    failed = {attack.way_out for attack in diagonal} - {a.way_out for a in successes(gateway, diagonal, "full")}
    assert not failed


def test_ordinary_tasks_of_a_sample_cost_at_most_one_question(gateway: Gateway) -> None:
    assert max(task.run(gateway) for task in TASKS[::_SAMPLE]) <= 1


@pytest.mark.whole
@pytest.mark.sqlite_only
@pytest.mark.timeout(600)
def test_one_in_twenty_ordinary_tasks_may_cost_more(gateway: Gateway) -> None:
    asked = {task.name: task.run(gateway) for task in TASKS}
    several = {name: count for name, count in asked.items() if count > 1}
    assert len(several) <= 0.05 * len(TASKS), several


@pytest.mark.whole
@pytest.mark.sqlite_only  # PostgreSQL gets the samples
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("autonomy", AUTONOMIES)
def test_nothing_leaves_unapproved(gateway: Gateway, autonomy: str) -> None:
    assert successes(gateway, ATTACKS, autonomy) == []


@pytest.mark.whole
@pytest.mark.sqlite_only  # PostgreSQL gets the samples
@pytest.mark.timeout(1800)
def test_figures(gateway: Gateway, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Print the table."""
    counts = [f"{autonomy}: {len(successes(gateway, ATTACKS, autonomy))} succeed" for autonomy in AUTONOMIES]
    asked = Counter(task.run(gateway) for task in TASKS)
    monkeypatch.setattr(readings, "list_origins", lambda session_id: ())
    bare = [f"{autonomy}: {len(successes(gateway, ATTACKS, autonomy))} succeed" for autonomy in AUTONOMIES]
    with capsys.disabled():
        print(f"\n{len(ATTACKS)} attacks ({len(WAYS_IN)} ways in, {len(WAYS_OUT)} ways out): {', '.join(counts)}")  # noqa: T201
        print(f"without the guard: {', '.join(bare)}")  # noqa: T201
        print(f"{len(TASKS)} ordinary tasks by number of questions: {dict(sorted(asked.items()))}")  # noqa: T201
