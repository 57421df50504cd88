"""Claims and sweeps: order of claims, released and kept runs."""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connections
from django.db.models.functions import Now

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from agents_app.runs import engine as engine_module
from agents_app.runs import hooks, lease, worker
from agents_app.runs.engine import Engine
from agents_app.runs.reaper import Reaper
from agents_app.types import Message, RunStatus
from audit_app.kernel import database
from sessions_app.services import open_session
from tests.support.engine import EngineRig, until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _quick_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_CHECK_SECONDS", 0.05)


def test_a_run_whose_beginning_cannot_be_loaded_ends_readably(idle: EngineRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would be claimed and released for ever."""

    def broken(run: Run, user_turns: object) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(lease, "load_snapshot", broken)
    idle.start()
    idle.agent(Reply(("never",)))
    transcript = idle.wait(idle.send().run_id)
    assert (transcript.run.status, transcript.run.error_code) == (RunStatus.FAILED, "internal_error")


@pytest.fixture
def several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the engine several threads for the database, as on PostgreSQL."""

    async def elsewhere(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        def call() -> Any:
            try:
                return function(*args, **kwargs)
            finally:
                connections.close_all()

        return await asyncio.to_thread(call)

    for module in (engine_module, database):
        monkeypatch.setattr(module, "in_db", elsewhere)


@pytest.mark.usefixtures("several_threads")
def test_a_run_that_is_claimed_during_a_look_is_not_taken_for_lost(
    idle: EngineRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_held, looks = lease.list_held, [0]
    may_send, may_end = threading.Event(), threading.Event()

    def slow(owner: UUID) -> Any:
        held = list_held(owner)
        looks[0] += 1
        if not may_send.is_set():
            may_send.set()
            until(lambda: len(script.requests) == 2)
        return held

    script = idle.agent(Reply(hangs=True), Reply(("Hel", "lo!"), held_by=may_end))
    monkeypatch.setattr(lease, "list_held", slow)
    idle.start().send()
    may_send.wait()
    second = idle.send(session=open_session(owner=idle.owner)).run_id
    until(lambda: looks[0] > 2)
    may_end.set()
    assert idle.wait(second).answer == "Hello!"
    assert Run.objects.get(pk=second).fence == 1


@pytest.mark.usefixtures("several_threads")
def test_a_claim_that_takes_long_to_load_is_not_given_back(idle: EngineRig, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, load, look_after = [0], lease.load_snapshot, Engine.look_after

    async def counted(self: Engine) -> None:
        await look_after(self)
        looks[0] += 1

    def slow(run: Run, user_turns: tuple[Message, ...]) -> Any:
        until(lambda seen=looks[0]: looks[0] > seen + 4)
        return load(run, user_turns)

    monkeypatch.setattr(Engine, "look_after", counted)
    monkeypatch.setattr(lease, "load_snapshot", slow)
    monkeypatch.setattr(Reaper, "sweep", lambda self: None)
    script = idle.start().agent(Reply(("Hello!",)))
    assert idle.wait(idle.send().run_id).answer == "Hello!"
    assert (len(script.requests), Run.objects.get().fence) == (1, 1)


def test_what_has_begun_goes_before_what_has_not(idle: EngineRig) -> None:
    """Otherwise a run whose tools have ended would wait while new messages arrive faster than they are answered."""
    idle.agent(Reply(("never",)))
    new, begun = idle.send().run_id, idle.send(session=open_session(owner=idle.owner)).run_id
    Run.objects.filter(pk=new).update(ready_at=Now() - timedelta(minutes=1))
    Run.objects.filter(pk=begun).update(status="waiting", waiting_on="tools", ready_at=None, fence=1)
    rung: list[UUID] = []
    Reaper(rung.append).sweep()
    assert rung == [begun, new]
    claim = lease.claim(uuid4())
    assert claim and claim.run.id == begun


def test_a_part_of_the_sweep_that_fails_keeps_no_other_from_its_work(
    idle: EngineRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(observer: object) -> None:
        raise ValueError("a row that nobody foresaw")

    swept: list[object] = []
    monkeypatch.setattr("agents_app.runs.reaper.tools.sweep", broken)
    monkeypatch.setattr(hooks, "sweeps", [hooks.Sweep(broken), hooks.Sweep(swept.append)])
    idle.agent(Reply(("Hello!",)))
    accepted = idle.send()
    Run.objects.update(ready_at=Now() - timedelta(minutes=1))
    rung: list[UUID] = []
    Reaper(rung.append).sweep()
    assert rung == [accepted.run_id] and len(swept) == 1


def test_a_run_that_waits_for_its_claim_has_no_second_claim(idle: EngineRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a worker that is slower than its messages gets more claims the slower it is."""
    claimed, claim, may_claim = list[UUID | None](), lease.claim, threading.Event()

    def slow(owner: UUID, run_id: UUID | None = None, **how: Any) -> Any:
        claimed.append(run_id)
        assert may_claim.wait(60)
        return claim(owner, run_id, **how)

    monkeypatch.setattr(lease, "claim", slow)
    monkeypatch.setattr(Reaper, "sweep", lambda self: None)
    idle.agent(*[Reply(("Hello!",))] * 5)
    idle.drops = lambda task_name: True
    runs = [idle.send(session=open_session(owner=idle.owner)).run_id for _ in range(5)]
    idle.start()
    assert idle.engine
    for _ in range(3):
        for run_id in runs:
            idle.engine.nudge(run_id)
    until(lambda: claimed)
    may_claim.set()
    assert [idle.wait(run_id).answer for run_id in runs] == ["Hello!"] * 5
    assert sorted(filter(None, claimed)) == sorted(runs)


def test_a_nudge_during_a_claim_is_not_lost(idle: EngineRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run may have become claimable after it was read."""
    claim, has_read, may_answer = lease.claim, threading.Event(), threading.Event()

    def late(owner: UUID, run_id: UUID | None = None, **how: Any) -> Any:
        if has_read.is_set():
            return claim(owner, run_id, **how)
        has_read.set()
        assert may_answer.wait(60)
        return None

    monkeypatch.setattr(lease, "claim", late)
    monkeypatch.setattr(Reaper, "sweep", lambda self: None)
    idle.start().agent(Reply(("Hello!",)))
    run_id = idle.send().run_id
    assert has_read.wait(60)
    assert idle.engine and idle.engine._engine
    idle.engine.nudge(run_id)
    until(lambda: idle.engine and idle.engine._engine and idle.engine._engine._offered.get(run_id))
    may_answer.set()
    assert idle.wait(run_id).answer == "Hello!"


def test_runs_that_stay_claimable_are_nudged_less_and_less_often(idle: EngineRig) -> None:
    idle.agent()
    runs = [idle.send(session=open_session(owner=idle.owner)).run_id for _ in range(5)]
    Run.objects.update(ready_at=Now() - timedelta(minutes=1))
    now, nudged, waiting = [0.0], list[UUID](), [True]
    sweeping = Reaper(nudged.append, has_nudges=lambda: waiting[0], clock=lambda: now[0])
    sweeping._renudge()
    assert nudged == []  # earlier nudges wait for a worker
    waiting[0], at = False, []
    for second in range(40):
        now[0], before = float(second), len(nudged)
        sweeping._renudge()
        if len(nudged) > before:
            at.append(second)
            assert sorted(nudged[before:]) == sorted(runs)
    assert at == [0, 2, 6, 14, 22, 30, 38]
