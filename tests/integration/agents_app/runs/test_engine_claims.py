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
from agents_app.types import RunStatus
from audit_app.kernel import durable_writes
from sessions_app.services import open_session
from tests.support.engine import EngineRig, until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _quick_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_CHECK_SECONDS", 0.05)


def test_a_run_whose_beginning_cannot_be_loaded_ends_readably(idle: EngineRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would be claimed and released for ever."""

    def broken(run: Run) -> None:
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

    for module in (engine_module, durable_writes):
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

    def slow(run: Run) -> Any:
        until(lambda seen=looks[0]: looks[0] > seen + 4)
        return load(run)

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
    monkeypatch.setattr(hooks, "sweeps", [broken, swept.append])
    idle.agent(Reply(("Hello!",)))
    accepted = idle.send()
    Run.objects.update(ready_at=Now() - timedelta(minutes=1))
    rung: list[UUID] = []
    Reaper(rung.append).sweep()
    assert rung == [accepted.run_id] and len(swept) == 1
