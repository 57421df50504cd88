"""What a message to a busy session does, one after the other and fifty at once."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections

from agents_app.errors import QueueFull, RunBusy
from agents_app.models import Run, Step
from agents_app.providers.scripted import Reply
from agents_app.types import RunStatus
from audit_app.models import Event
from sessions_app.models import Session, Turn
from sessions_app.services import open_session, rename_session
from tests.engine_rig import EngineRig, until

pytestmark = pytest.mark.django_db(transaction=True)

MANY = 50


@pytest.fixture
def rig(valkey: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineRig]:
    rig = EngineRig(monkeypatch).start()
    yield rig
    rig.stop()


def at_once(act: Callable[[int], Any], count: int = MANY) -> list[Any]:
    """The results of `act`, or the errors it raised, called by eight threads."""

    def attempt(number: int) -> Any:
        try:
            return act(number)
        except (QueueFull, RunBusy) as error:
            return error
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(attempt, range(count)))


def rests() -> bool:
    return not Run.objects.filter(ended_at=None).exists()


def test_queue_answers_fifty_messages_in_order(rig: EngineRig) -> None:
    rig.agent(Reply(("ok",)), queue_limit=MANY)
    accepted = at_once(lambda number: rig.send(f"message {number}"))
    until(rests, 60)
    assert sorted(one.ordinal for one in accepted) == list(range(MANY))
    ended = list(Run.objects.order_by("ended_at").values_list("ordinal", flat=True))
    assert ended == sorted(ended)
    assert Turn.objects.filter(is_answer=True, content="ok").count() == MANY


def test_a_queue_of_the_default_length_takes_twenty_one_and_stores_nothing_of_the_rest(rig: EngineRig) -> None:
    rig.agent(Reply(hangs=True))
    results = at_once(lambda number: rig.send(f"message {number}"))
    refused = [result for result in results if isinstance(result, QueueFull)]
    assert len(refused) == 29
    assert all(error.retry_after_seconds > 0 for error in refused)
    assert (Run.objects.count(), Turn.objects.count(), Event.objects.filter(type="run.queued").count()) == (21, 21, 21)


def test_reject_runs_one_and_refuses_the_rest(rig: EngineRig) -> None:
    rig.agent(Reply(hangs=True), busy_policy="reject")
    results = at_once(lambda number: rig.send(f"message {number}"))
    assert sum(isinstance(result, RunBusy) for result in results) == MANY - 1
    assert Run.objects.count() == 1


def test_interrupt_stops_all_but_the_last(rig: EngineRig) -> None:
    rig.agent(Reply(("I begin",), hangs=True), busy_policy="interrupt")
    accepted = at_once(lambda number: rig.send(f"message {number}"))
    last = max(one.ordinal for one in accepted)
    until(lambda: Run.objects.filter(ended_at=None).count() == 1, 60)
    assert Run.objects.get(ended_at=None).ordinal == last == MANY - 1
    assert Run.objects.filter(status=RunStatus.CANCELLED).count() == MANY - 1
    assert Turn.objects.filter(role="user").count() == MANY


def test_interrupt_keeps_the_text_there_was(rig: EngineRig) -> None:
    rig.agent(Reply(("I begin",), hangs=True), Reply(("New answer",)), busy_policy="interrupt")
    first = rig.send("one")
    until(lambda: Run.objects.get(pk=first.run_id).started_at)
    second = rig.send("two")
    rig.wait(second.run_id)
    states = dict(Turn.objects.filter(is_answer=True).values_list("run_id", "state"))
    assert states == {first.run_id: "partial", second.run_id: "complete"}


def test_steer_joins_the_open_run_and_is_answered_by_it(rig: EngineRig) -> None:
    script = rig.agent(Reply(("thinking",), delay_seconds=0.5), Reply(("Both answered",)), busy_policy="steer")
    first = rig.send("one")
    until(lambda: script.requests)
    second = rig.send("two")
    assert second.run_id == first.run_id
    transcript = rig.wait(first.run_id)
    assert transcript.answer == "Both answered"
    said = [(message.role, message.content) for message in script.requests[1].messages[1:]]
    assert said == [("user", "one"), ("assistant", "thinking"), ("user", "two")]
    assert list(Event.objects.filter(type="step.completed").values_list("step", flat=True)) == [0]
    roles = Turn.objects.order_by("ordinal", "part").values_list("role", "content")
    assert list(roles) == [
        ("user", "one"), ("user", "two"), ("assistant", "thinking"), ("assistant", "Both answered"),
    ]  # fmt: skip


def test_steer_leaves_a_title_that_was_given_meanwhile(rig: EngineRig) -> None:
    rig.agent(Reply(("thinking",), hangs=True), busy_policy="steer")
    as_read = open_session(owner=rig.owner)
    first = rig.send("one", session=as_read)
    rename_session(Session.objects.get(), "Plans")
    assert rig.send("two", session=as_read).run_id == first.run_id
    assert Session.objects.get().title == "Plans"


def test_steer_leaves_no_message_unanswered(rig: EngineRig) -> None:
    script = rig.agent(Reply(("ok",)), busy_policy="steer")
    at_once(lambda number: rig.send(f"message {number}"))
    until(rests, 60)
    assert Turn.objects.filter(role="user").count() == MANY
    runs = list(Run.objects.all())
    assert sum(run.words for run in runs) == MANY
    assert all(run.status == RunStatus.COMPLETED for run in runs)
    assert Turn.objects.filter(is_answer=True).count() == len(runs)
    asked = "\n\n".join(message.content for message in script.requests[-1].messages if message.role == "user")
    assert set(asked.split("\n\n")) == {f"message {number}" for number in range(MANY)}
    assert all(Step.objects.filter(run=run).last().words_seen == run.words for run in runs)
