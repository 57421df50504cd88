"""Reservations: however many runs call a model at once, a budget is exceeded by one model call at most."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.db.models import F, Max, Sum

from agents_app.costs import tree_budget
from agents_app.models import Run, Step
from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from agents_app.runs import children, lease
from agents_app.runs.children import NewChild
from agents_app.runs.claims import Claim
from agents_app.runs.reservations import reserve
from agents_app.types import ModelChunk, ModelRequest, ModelResponse, TextDelta, Usage
from agents_app.types.child_runs import ChildSpec
from audit_app.kernel.ids import new_id
from audit_app.models import Event
from sessions_app.integrity_checks import find_violations
from tests.support.engine import EngineRig, until
from tests.support.team_script import TeamScript, role_of

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Crowd:
    """A rig whose model answers workstreams with a name that begins with `w`, others by their scripts.

    used: output tokens of such an answer; 0: as many as it may have.
    most: number of such calls that were open at once.
    together: number that have to be open at once before any of them is answered.
    limits: most tokens that answers might have, by the name of the workstream.
    """

    rig: EngineRig
    used: int = 0
    most: int = 0
    together: int = 0
    limits: dict[str, int | None] = field(default_factory=dict)
    _open: int = 0

    async def answer(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        self._open += 1
        self.most = max(self.most, self._open)
        await asyncio.sleep(0.05)  # a model takes its time; the other calls begin in it
        while self.most < self.together:
            await asyncio.sleep(0.01)  # no condition of another loop: the calls are in this one
        self._open -= 1
        yield TextDelta("Done.")
        yield ModelResponse("Done.", usage=Usage(20, self.used or request.options.max_output_tokens or 0))


@pytest.fixture
def crowd(idle: EngineRig, settings, monkeypatch: pytest.MonkeyPatch) -> Crowd:
    """Only the return of tokens lets waiting runs continue: they do not look again by themselves."""
    settings.KOMAND_MAX_RUNNING_PER_USER = 0
    monkeypatch.setattr(tree_budget, "AGAIN_AFTER", timedelta(hours=1))
    idle.agent(Reply(("Done.",)), tool_profile="teams")
    play()
    crowd, scripted = Crowd(idle), ScriptedProvider.stream

    def stream(provider: ScriptedProvider, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        role = role_of(request)
        crowd.limits[role] = request.options.max_output_tokens
        return crowd.answer(request) if role.startswith("w") else scripted(provider, request)

    monkeypatch.setattr(ScriptedProvider, "stream", stream)
    return crowd


def play(**replies: Reply) -> None:
    others = {name: [Reply(("Done.",))] for name in ("team", "poor")}
    script = TeamScript([Reply(("Done.",))], {**others, **{name: [reply] for name, reply in replies.items()}})
    ScriptedProvider.scripts["script"] = script


def child_of(parent: Run, name: str, budget: int | None = None) -> Run:
    spec = ChildSpec(name, "Work.", deadline_seconds=1800)
    return children.start_child(NewChild(uuid4(), parent.pk, name, spec, budget_tokens=budget))


def team_of(crowd: Crowd, budget: int) -> Run:
    return child_of(Run.objects.get(pk=crowd.rig.send().run_id), "team", budget)


def start(crowd: Crowd, *teams: Run) -> threading.Event:
    """Start the engine, and hold the first calls of these runs until the event is set, so that they do not come late.

    They use no tokens and then wait for what is launched meanwhile.
    """
    may_end = threading.Event()
    play(**{team.workstream: Reply(("Do", "ne."), held_by=may_end) for team in teams})
    # As if they had launched one before: a run launches between its calls, not during one.
    Run.objects.filter(pk__in=[team.pk for team in teams]).update(child_count=F("child_count") + 1)
    crowd.rig.start()
    for team in teams:
        until(lambda row=team: reserved(row))
    return may_end


def used_by(team: Run) -> int:
    runs = Run.objects.filter(pk=team.pk) | Run.objects.filter(parent=team)
    return int(runs.aggregate(sum=Sum(F("input_tokens") + F("output_tokens")))["sum"])


def longest_call() -> int:
    return int(Step.objects.aggregate(most=Max(F("input_tokens") + F("output_tokens")))["most"])


def check_ended(root_id: UUID) -> None:
    assert not Run.objects.filter(ended_at=None).exists() and not Run.objects.filter(reserved_tokens__gt=0).exists()
    assert find_violations() == []


@pytest.mark.parametrize("count", [20, 100])
def test_runs_that_call_at_once_exceed_a_small_budget_by_one_call(crowd: Crowd, count: int) -> None:
    crowd.used = 230
    team = team_of(crowd, 500)
    may_end = start(crowd, team)
    for number in range(count):
        child_of(team, f"w{number}")
    may_end.set()
    crowd.rig.wait(team.root_id, 240)
    ends = list(Run.objects.filter(parent=team).values_list("status", "error_code"))
    assert 500 <= used_by(team) <= 500 + 250
    assert ends.count(("completed", "")) == 2 and ends.count(("failed", "budget_exhausted")) == count - 2
    check_ended(team.root_id)


def test_calls_for_which_there_is_room_are_made_at_once(crowd: Crowd) -> None:
    crowd.together = 3
    team = team_of(crowd, 40_000)
    may_end = start(crowd, team)
    for number in range(20):
        child_of(team, f"w{number}")
    may_end.set()
    crowd.rig.wait(team.root_id, 240)
    assert 40_000 - longest_call() <= used_by(team) <= 40_000 + longest_call()
    check_ended(team.root_id)


def test_a_budget_within_another_one_is_kept_as_well(crowd: Crowd) -> None:
    crowd.used = 230
    team = team_of(crowd, 100_000)
    poor = child_of(team, "poor", 500)
    may_end = start(crowd, team, poor)
    for number in range(10):
        child_of(poor, f"w{number}")
        child_of(team, f"w{10 + number}")
    may_end.set()
    crowd.rig.wait(team.root_id, 240)
    assert 500 <= used_by(poor) <= 500 + 250
    assert set(Run.objects.filter(parent=team).values_list("status", flat=True)) == {"completed", "failed"}
    assert list(Run.objects.filter(parent=team, status="failed").values_list("workstream", flat=True)) == ["poor"]
    assert Run.objects.filter(parent=poor, status="completed").count() == 2
    check_ended(team.root_id)


def test_an_answer_may_have_what_the_used_tokens_leave(crowd: Crowd) -> None:
    team = team_of(crowd, 5000)
    child_of(team, "w1")
    Run.objects.filter(pk=team.pk).update(input_tokens=4000)
    crowd.rig.start().wait(team.root_id)
    assert crowd.limits["w1"] and crowd.limits["w1"] < 1000 and crowd.limits["main"] is None
    check_ended(team.root_id)


def claimed(run: Run) -> Claim:
    claim = lease.claim(new_id(), run.pk)
    assert claim
    return claim


def reserved(run: Run) -> int:
    return Run.objects.get(pk=run.pk).reserved_tokens


def test_a_run_waits_for_what_another_one_has_reserved(crowd: Crowd) -> None:
    team = team_of(crowd, 6000)
    first, second = child_of(team, "w1"), child_of(team, "w2")
    claim = claimed(first)
    longest = reserve(claim, claim.snapshot)
    assert longest and longest < reserved(first) <= 6000
    assert reserve(claim, claim.snapshot) == longest, "a further call replaces it"
    other = claimed(second)
    assert reserve(other, other.snapshot) is None
    row = Run.objects.get(pk=second.pk)
    assert (row.status, row.waiting_on, row.owner) == ("waiting", "budget", None) and row.reserved_tokens
    assert lease.claim(new_id(), second.pk) is None
    assert Event.objects.get(run_id=second.pk, type="run.waiting").payload["waiting_on"] == "budget"
    assert lease.release(claim.run, claim.owner, active_seconds=0.0)
    assert reserved(first) == 0
    again = claimed(second)
    assert reserved(second) == 0 and reserve(again, again.snapshot) == longest


def test_a_crash_gives_back_what_was_reserved(crowd: Crowd) -> None:
    team = team_of(crowd, 6000)
    first, second = child_of(team, "w1"), child_of(team, "w2")
    claim, other = claimed(first), claimed(second)
    assert reserve(claim, claim.snapshot) and reserve(other, other.snapshot) is None
    lease.recover_crashed(Run.objects.select_related("agent").get(pk=first.pk))
    assert reserved(first) == 0
    again = claimed(second)
    assert again.resumes and reserve(again, again.snapshot)


def test_a_claim_of_an_earlier_release_leaves_no_reservation(crowd: Crowd) -> None:
    """It does not clear the column when it ends a run."""
    team = team_of(crowd, 6000)
    first, second = child_of(team, "w1"), child_of(team, "w2")
    Run.objects.filter(pk=first.pk).update(reserved_tokens=5000, owner=None)
    claim = claimed(second)
    assert reserve(claim, claim.snapshot)


def test_a_run_that_waits_continues_as_soon_as_there_is_room(crowd: Crowd) -> None:
    may_end = threading.Event()
    play(first=Reply(("One ", "end."), held_by=may_end), second=Reply(("Two.",)))
    team = team_of(crowd, 6000)
    first = child_of(team, "first")
    Run.objects.filter(pk=team.pk).update(ready_at=None)  # it would call the model, too
    crowd.rig.start()
    until(lambda: reserved(first))
    second = child_of(team, "second")
    until(lambda: Run.objects.filter(pk=second.pk, waiting_on="budget").exists())
    may_end.set()
    until(lambda: Run.objects.filter(pk=second.pk, status="completed").exists())
    children.terminate_child(team.parent_id, team.pk)
    crowd.rig.wait(team.root_id)
    check_ended(team.root_id)
