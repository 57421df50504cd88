"""Turns of users: at most so many running runs each, and free places for all of them in turn."""

import threading
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db.models.functions import Now

from agents_app import hot_queries
from agents_app import services as runs
from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from agents_app.runs import lease, turns
from agents_app.runs.claims import HeldBack
from agents_app.runs.engine import Engine
from agents_app.runs.reaper import Reaper
from agents_app.types import RunStatus
from audit_app import timeline
from audit_app.kernel import context
from sessions_app import integrity_checks
from sessions_app.services import open_session
from tests.support.engine import EngineRig, until
from tests.support.team_script import TeamScript
from tools_app.types import ToolCall

pytestmark = pytest.mark.django_db(transaction=True)

ALICE, BOB, CAROL = "user:1", "user:2", "user:3"


def send(rig: EngineRig, actor: str, times: int = 1) -> list[UUID]:
    """Send messages of a user into sessions of their own, and return their runs."""
    with context.bind(actor=actor):
        return [rig.send(session=open_session(owner=rig.owner)).run_id for _ in range(times)]


def running(actor: str) -> int:
    return Run.objects.filter(actor=actor, owner__isnull=False).count()


def held(run_id: UUID) -> Run:
    """Let a process hold a run."""
    Run.objects.filter(pk=run_id).update(owner=uuid4(), status="running", ready_at=None)
    return Run.objects.get(pk=run_id)


@pytest.fixture
def _no_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the engine alone with its nudges."""

    async def nothing(self: Engine) -> None: ...

    monkeypatch.setattr(Reaper, "sweep", lambda self: None)
    monkeypatch.setattr(Engine, "look_after_turns", nothing)


@pytest.mark.usefixtures("_no_sweeps")
def test_a_user_with_many_runs_leaves_places_for_others(idle: EngineRig, settings: Any) -> None:
    settings.KOMAND_MAX_RUNNING_PER_USER = 2
    may_end = threading.Event()
    idle.agent(*[Reply(("a", "b"), held_by=may_end)] * 2, Reply(("Hello Bob!",)), *[Reply(("c",))] * 5)
    many = send(idle, ALICE, 7)
    idle.start()
    engine = idle.engine._engine if idle.engine else None
    assert engine
    engine.nudge(many[0])
    until(lambda: running(ALICE) == 1)  # claims at the same moment may exceed the limit
    engine.nudge(many[1])
    until(lambda: running(ALICE) == 2)
    for run_id in many[2:]:
        engine.nudge(run_id)
    until(lambda: engine._held_back == {ALICE})
    [other] = send(idle, BOB)
    assert idle.wait(other).answer == "Hello Bob!"
    assert (running(ALICE), Run.objects.filter(status="queued").count()) == (2, 5)
    may_end.set()
    assert {idle.wait(run_id).run.status for run_id in many} == {RunStatus.COMPLETED}


def test_what_waits_for_a_place_says_so_once(idle: EngineRig, settings: Any) -> None:
    settings.KOMAND_MAX_RUNNING_PER_USER = 1
    may_end = threading.Event()
    idle.start().agent(Reply(("a", "b"), held_by=may_end), Reply(("c",)))
    [first] = send(idle, ALICE)
    until(lambda: running(ALICE) == 1)
    [second] = send(idle, ALICE)
    until(lambda: Run.objects.get(pk=second).waiting_on == "place")
    turns.show_waits(ALICE)
    session_id = Run.objects.get(pk=second).conversation_id
    told = [event.payload for event in timeline.list_events(session_id) if event.type == "run.waiting"]
    text = "Waiting for a place: at most 1 of your runs run at once"
    assert told == [{"waiting_on": "place", "reason": text, "until": None}]
    may_end.set()
    assert idle.wait(first).answer == "ab" and idle.wait(second).answer == "c"
    assert Run.objects.get(pk=second).waiting_on == ""


def test_a_parent_that_waits_has_no_place(idle: EngineRig, settings: Any) -> None:
    """Else its workstreams would wait for the place that it keeps until they have ended."""
    settings.KOMAND_MAX_RUNNING_PER_USER = 1
    launches = [
        ToolCall(f"l{number}", "launch_workstream", f'{{"id": "w{number}", "instruction": "Work."}}')
        for number in range(5)
    ]
    main = [Reply(tool_calls=tuple(launches)), Reply(tool_calls=(ToolCall("w", "wait_workstreams", "{}"),))]
    idle.agent(Reply(), tool_profile="teams")
    children = {f"w{number}": [Reply((f"Done {number}.",))] for number in range(5)}
    ScriptedProvider.scripts["script"] = TeamScript([*main, Reply(("All done.",))], children)
    idle.start()
    [root] = send(idle, ALICE)
    assert idle.wait(root, 60).answer == "All done."
    rows = Run.objects.filter(root_id=root)
    assert {(run.status, run.actor) for run in rows} == {("completed", ALICE)} and rows.count() == 5
    assert integrity_checks.find_violations() == []


def test_free_places_go_to_users_in_turn(idle: EngineRig) -> None:
    idle.agent(Reply(("never",)))
    first, second, *_ = send(idle, ALICE, 4)
    [bobs], [carols] = send(idle, BOB), send(idle, CAROL)
    given, after = [], ""
    for _ in range(4):
        claim = lease.claim(uuid4(), after=after)
        assert claim
        given.append(claim.run.id)
        after = claim.run.actor
    assert given == [first, bobs, carols, second]


def test_users_who_may_run_no_more_are_passed_over(idle: EngineRig, settings: Any) -> None:
    settings.KOMAND_MAX_RUNNING_PER_USER = 1
    idle.agent(Reply(("never",)))
    running_one, begun, new = send(idle, ALICE, 3)
    [bobs] = send(idle, BOB)
    held(running_one)
    Run.objects.filter(pk=begun).update(status="waiting", waiting_on="tools", ready_at=None, fence=1)
    with pytest.raises(HeldBack) as refused:
        lease.claim(uuid4(), new)
    assert refused.value.actor == ALICE
    with pytest.raises(HeldBack):
        lease.claim(uuid4(), actor=ALICE)
    claim = lease.claim(uuid4(), after="user:0")
    assert claim and claim.run.id == bobs
    assert lease.claim(uuid4()) is None
    Run.objects.filter(pk=running_one).update(status="completed", owner=None, ended_at=Now())
    claim = lease.claim(uuid4(), actor=ALICE)
    assert claim and claim.run.id == begun, "what has begun goes first"


def test_runs_that_wait_for_a_place_do_not_hide_lost_nudges(
    idle: EngineRig, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.KOMAND_MAX_RUNNING_PER_USER = 1
    idle.agent(Reply(("never",)))
    running_one, *_ = send(idle, ALICE, 4)
    [bobs] = send(idle, BOB)
    Run.objects.update(ready_at="2026-01-01T00:00:00Z")
    held(running_one)
    nudged: list[UUID] = []
    monkeypatch.setattr(hot_queries, "REAPED_AT_ONCE", 2)
    monkeypatch.setattr(hot_queries.LIST_LATE_CLAIMABLE, "_compiled", {})
    Reaper(nudged.append)._renudge()
    assert nudged == [bobs]


def test_no_limit_is_zero(idle: EngineRig, settings: Any) -> None:
    settings.KOMAND_MAX_RUNNING_PER_USER = 0
    idle.agent(Reply(("never",)))
    first, second = send(idle, ALICE, 2)
    held(first)
    assert lease.claim(uuid4(), second)


def test_one_that_waits_can_be_cancelled(idle: EngineRig, settings: Any) -> None:
    settings.KOMAND_MAX_RUNNING_PER_USER = 1
    idle.agent(Reply(("never",)))
    first, second = send(idle, ALICE, 2)
    held(first)
    turns.show_waits(ALICE)
    assert Run.objects.get(pk=second).waiting_on == "place"
    assert runs.cancel_run(second)
    assert (Run.objects.get(pk=second).status, Run.objects.get(pk=second).waiting_on) == ("cancelled", "")
