"""Faults between the steps of a run: a late stop, a database that is briefly away, a drain."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError, connections, transaction

from agents_app import services as runs
from agents_app.models import Run
from agents_app.providers import registry
from agents_app.providers.kinds.scripted import Reply
from agents_app.runs import worker, writes
from agents_app.runs.engine import Engine
from agents_app.types import RunStatus
from audit_app.models import Event
from sessions_app.integrity_checks import find_violations
from sessions_app.models import Turn
from tests.support.engine import EngineRig, until, until_a_lock_is_awaited
from tools_app.models import ToolExecution
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

ASKING = ToolCall("c", "ask_user", '{"question": "Which colour?"}')


@pytest.fixture(autouse=True)
def _quick_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_CHECK_SECONDS", 0.05)


def once(fault: Exception, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, failing at its first call."""
    faults = [fault]

    def failing(*args: Any, **kwargs: Any) -> Any:
        if faults:
            raise faults.pop()
        return function(*args, **kwargs)

    return failing


@pytest.mark.parametrize(
    ("last", "then", "status"),
    [
        ({"tool_calls": (ASKING,)}, "", RunStatus.CANCELLED),
        ({"error": "model_error"}, "", RunStatus.CANCELLED),
        ({}, "And another thing.", RunStatus.CANCELLED),
        ({}, "", RunStatus.COMPLETED),
    ],
    ids=["a question to the person", "a retry", "a message that joins", "the answer"],
)
def test_a_run_that_was_stopped_as_its_model_call_ended_keeps_the_text(
    idle: EngineRig, monkeypatch: pytest.MonkeyPatch, valkey: Any, last: dict[str, Any], then: str, status: RunStatus
) -> None:
    async def sees_nothing(self: Engine) -> None:
        """Check nothing: the stop comes after the last check."""

    monkeypatch.setattr(Engine, "look_after", sees_nothing)
    idle.start()
    held = threading.Event()
    idle.agent(Reply(("One thing ", "first."), held_by=held, **last), Reply(("Done.",)), retry_first_seconds=60)
    accepted = idle.send()
    until(lambda: b"One thing" in str(valkey.xrange(f"komand:run:{accepted.run_id}")).encode())
    if then:
        assert idle.send(then, busy="steer").run_id == accepted.run_id
    assert runs.cancel_run(accepted.run_id)
    held.set()
    assert idle.wait(accepted.run_id).run.status is status
    stored = Turn.objects.filter(role="assistant").values_list("content", flat=True)
    assert [text for text in stored if text] == ["One thing first."]
    closed = Event.objects.filter(type__in=["step.completed", "message.completed"], step=0)
    assert list(closed.values_list("payload__text_length", flat=True)) == [len("One thing first.")]
    assert not ToolExecution.objects.exists()
    assert find_violations() == []


def test_a_stopped_run_keeps_the_text_from_before_a_steering_message(idle: EngineRig, valkey: Any) -> None:
    idle.start()
    held = threading.Event()
    idle.agent(Reply(("First", "."), held_by=held), Reply(("And sec",), hangs=True), busy_policy="steer")
    accepted = idle.send("one")
    until(lambda: b"First" in str(valkey.xrange(f"komand:run:{accepted.run_id}")).encode())
    idle.send("two")
    held.set()
    until(lambda: b"And sec" in str(valkey.xrange(f"komand:run:{accepted.run_id}")).encode())
    runs.cancel_run(accepted.run_id)
    idle.wait(accepted.run_id)
    stored = Turn.objects.filter(role="assistant").order_by("part").values_list("content", "is_answer")
    assert list(stored) == [("First.", False), ("And sec", True)]
    assert Event.objects.get(type="message.completed").step == 1


def test_a_run_that_parks_while_it_is_being_stopped_ends(idle: EngineRig) -> None:
    """The request finds the run owned and waits for its row, which the owner then releases."""
    idle.agent(Reply(("never",)))
    run = Run.objects.get(pk=idle.send().run_id)
    Run.objects.filter(pk=run.pk).update(status="running", owner=run.pk, fence=1, ready_at=None)

    def stop() -> None:
        runs.cancel_run(run.pk)
        connections.close_all()

    with transaction.atomic():
        Run.objects.filter(pk=run.pk).update(status="waiting", waiting_on="approval", owner=None)
        stopper = threading.Thread(target=stop)
        stopper.start()
        until_a_lock_is_awaited()
    stopper.join()
    assert Run.objects.get().status == RunStatus.CANCELLED


def test_a_database_that_blinks_fails_no_run(idle: EngineRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_open", lambda row: None)
    monkeypatch.setattr(registry, "open_provider", once(OperationalError("gone"), registry.open_provider))
    idle.start()
    idle.agent(Reply(("Hello!",)))
    transcript = idle.wait(idle.send().run_id)
    assert (transcript.run.status, transcript.answer) == (RunStatus.COMPLETED, "Hello!")
    assert Run.objects.get().crashes == 0


def test_a_step_whose_commit_was_not_confirmed_is_not_recorded_twice(
    idle: EngineRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, lost = writes.record_and_decide, [OperationalError("the connection broke after the commit")]

    def record_and_lose(*args: Any) -> Any:
        following = record(*args)
        if lost:
            raise lost.pop()
        return following

    monkeypatch.setattr(writes, "record_and_decide", record_and_lose)
    idle.start()
    idle.agent(Reply(tool_calls=(ToolCall("c", "no_such_tool", "{}"),)), Reply(("Sorry.",)))
    transcript = idle.wait(idle.send().run_id)
    assert (transcript.run.status, transcript.answer) == (RunStatus.COMPLETED, "Sorry.")
    assert find_violations() == []


def test_a_message_that_comes_as_a_run_ends_is_taken_in(idle: EngineRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both lock the rows of the session and of its timeline, in the same order."""
    end_decided, budget_refusal = writes._end_decided, ["", "The budget is used up."]
    sent: list[Future[Any]] = []

    def send() -> Any:
        try:
            return idle.send("another")
        finally:
            connections.close_all()

    def send_and_end(*args: Any) -> None:
        if not sent:
            sent.append(pool.submit(send))
            until_a_lock_is_awaited(or_done=sent[0].done)
        end_decided(*args)

    monkeypatch.setattr(writes, "_end_decided", send_and_end)
    monkeypatch.setattr(
        "agents_app.runs.writes.cost_budget.refusal_of", lambda *_: budget_refusal.pop(0) if budget_refusal else ""
    )
    idle.start().agent(Reply(tool_calls=(ToolCall("c", "no_such_tool", "{}"),)), Reply(("Sorry.",)))
    with ThreadPoolExecutor(1) as pool:
        first = idle.send("one")
        assert idle.wait(first.run_id).run.error_code == "budget_exhausted"
        assert idle.wait(sent[0].result().run_id).answer == "Sorry."
    types = list(Event.objects.filter(run_id=first.run_id).order_by("seq").values_list("type", flat=True))
    assert types[-4:] == ["tool.requested", "tool.failed", "message.completed", "run.failed"]


def test_a_double_click_tries_again_once(idle: EngineRig) -> None:
    held = threading.Event()
    script = idle.start().agent(Reply(error="model_auth"), Reply(("Hel", "lo!"), held_by=held), Reply(("Again.",)))
    failed = idle.send().run_id
    idle.wait(failed)
    again, twice = (runs.retry_run(failed, actor="user:1") for _ in range(2))
    held.set()
    assert again == twice and idle.wait(again).answer == "Hello!"
    assert idle.wait(runs.retry_run(failed, actor="user:1")).answer == "Again."
    assert len(script.requests) == 3


def test_a_provider_that_sends_what_cannot_be_stored_fails_its_own_run_alone(idle: EngineRig) -> None:
    idle.start().agent(Reply(("half a pair: \ud83d", "!")), Reply(("Hello!",)))
    assert idle.wait(idle.send().run_id).run.error_code == "internal_error"
    assert idle.wait(idle.send().run_id).answer == "Hello!"


def test_a_run_can_be_stopped_while_its_worker_drains(
    idle: EngineRig, monkeypatch: pytest.MonkeyPatch, valkey: Any
) -> None:
    monkeypatch.setattr(settings, "KOMAND_DRAIN_SECONDS", 20)
    idle.start()
    idle.agent(Reply(("Once upon a time",), hangs=True))
    accepted = idle.send()
    until(lambda: b"Once upon" in str(valkey.xrange(f"komand:run:{accepted.run_id}")).encode())
    draining = threading.Thread(target=idle.stop)
    draining.start()
    runs.cancel_run(accepted.run_id)
    draining.join()
    assert Run.objects.get().status == RunStatus.CANCELLED
