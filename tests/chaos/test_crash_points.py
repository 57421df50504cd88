"""A crash at every point of a run: the sweeper brings it to the same end.

Each scenario is played undisturbed once, which finds its points; then once for each of them with a cut there; then with
two cuts, the second in the recovery from the first. `make test` takes two scenarios and a share of their points, CI a
share of the points of all, `make chaos` every point.
"""

import os
import random
from collections.abc import Callable, Iterable, Iterator

import pytest
from django.db import connection

from sessions_app.integrity_checks import find_violations
from tests.chaos.crash_gateway import Gateway
from tests.chaos.scenario_player import Play
from tests.chaos.scenarios import SCENARIOS
from tests.support.selection import read_slice
from tools_app.registry import tools

pytestmark = pytest.mark.django_db(transaction=True)

# The part of the points that is cut, such as 2/12. Unset: a share of two scenarios, for `make test`.
_IS_GIVEN = "KOMAND_CUT_SLICE" in os.environ
_NUMBER, _COUNT = read_slice("KOMAND_CUT_SLICE", "1/8")
_SAMPLE = max(10, 60 // _COUNT) if _IS_GIVEN else 4
_SEED = 2025 + _NUMBER  # each part takes samples of its own
_PLAYED = SCENARIOS if _IS_GIVEN else SCENARIOS[:2]


@pytest.fixture
def gateway(valkey: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    gateway = Gateway(monkeypatch)
    yield gateway
    gateway.close()


@pytest.fixture(params=_PLAYED, ids=lambda scenario: scenario.name.replace(" ", "-"))
def play(request, gateway: Gateway, valkey: object) -> Iterator[Play]:
    play = Play(request.param, gateway, valkey)
    with tools.override(*play.tools):
        yield play


@pytest.fixture
def main_play(gateway: Gateway, valkey: object) -> Iterator[Play]:
    play = Play(SCENARIOS[0], gateway, valkey)
    with tools.override(*play.tools):
        yield play


def play_all(play: Play, choose: Callable[[int], Iterable[tuple[int, ...]]]) -> None:
    """Play it once without a cut, then with each choice of cuts. A failure names its points."""
    usual = play.run()
    points, calls = list(play.gateway.points), len(play.script.requests)
    failures, done = [], 0
    for cuts in choose(len(points)):
        try:
            play.check(play.run(*cuts), usual, calls, len(cuts))
        except AssertionError as error:
            named = [points[cut] if cut < len(points) else "in the recovery" for cut in cuts]
            failures.append(f"cut at {cuts} {named}: {str(error)[:2000]}")
        done += 1
    assert done
    assert not failures, f"{len(failures)} of {done}:\n" + "\n".join(failures[:5])
    assert find_violations() == []


# Every cut of the longest scenario, on PostgreSQL, beside other tests.
@pytest.mark.timeout(1200)
def test_a_crash_at_any_point_changes_nothing(play: Play) -> None:
    play_all(play, lambda count: [(cut,) for cut in range(count) if _is_cut_here(cut)])


def _is_cut_here(cut: int) -> bool:
    """Return whether a point is cut. The databases take different ones, where not all are."""
    first = _NUMBER - 1 + (_COUNT // 2 if connection.vendor == "postgresql" else 0)
    return (cut - first) % _COUNT == 0


def test_the_points_are_all_kinds_of_acts(main_play: Play) -> None:
    """Otherwise the test above would prove less than its name claims."""
    main_play.run()
    kinds = {" ".join(point.split()[:3]) for point in main_play.gateway.points}
    where = {point.split(":")[0] for point in main_play.gateway.points}
    assert {"web", "runs", "tools"} <= where <= {"web", "runs", "tools", "reaper"}
    assert {
        f"runs: INSERT komand_{table}" for table in ("step", "tool_execution", "approval", "turn", "event")
    } <= kinds
    assert {"tools: UPDATE komand_tool_execution", "web: INSERT komand_turn", "web: UPDATE komand_approval"} <= kinds
    assert {"runs: append text.delta", "runs: nudge tools.execute", "tools: nudge agents.advance_run"} <= kinds
    assert {f"{kind}: {when} COMMIT" for kind in ("web", "runs", "tools") for when in ("before", "after")} <= kinds
    assert len(main_play.gateway.points) > 100


def test_a_second_crash_in_the_recovery_changes_nothing(main_play: Play) -> None:
    random_of = random.Random(_SEED)

    def pairs(count: int) -> list[tuple[int, int]]:
        firsts = random_of.sample(range(count), _SAMPLE)
        return [(first, first + random_of.randint(1, 12)) for first in firsts]

    play_all(main_play, pairs)


def test_losing_the_broker_with_the_process_changes_nothing(main_play: Play) -> None:
    main_play.gateway.on_cut = main_play.gateway.broker.clear
    play_all(main_play, lambda count: [(cut,) for cut in random.Random(_SEED).sample(range(count), _SAMPLE)])


def test_nudges_that_come_twice_change_nothing(main_play: Play) -> None:
    main_play.gateway.doubled = True
    play_all(main_play, lambda count: [(), *((cut,) for cut in random.Random(_SEED).sample(range(count), _SAMPLE))])
