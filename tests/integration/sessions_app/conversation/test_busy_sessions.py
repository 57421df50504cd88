"""Messages to a busy session. Fifty at once under each policy: surfaces/test_pressure.py."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections

from agents_app.models import Run, Step
from agents_app.providers.kinds.scripted import Reply
from agents_app.types import RunStatus
from audit_app.kernel import nudges
from audit_app.models import Event
from sessions_app.models import Session, Turn
from sessions_app.services import open_session, rename_session
from tests.support.engine import EngineRig, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

MANY = 50


def at_once(act: Callable[[int], Any], count: int = MANY) -> None:
    """Call the function in eight threads."""

    def attempt(number: int) -> None:
        try:
            act(number)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(attempt, range(count)))


def rests() -> bool:
    return not Run.objects.filter(ended_at=None).exists()


def test_interrupt_keeps_the_text_there_was(rig: EngineRig) -> None:
    rig.agent(Reply(("I begin",), hangs=True), Reply(("New answer",)), busy_policy="interrupt")
    first = rig.send("one")
    until(lambda: Run.objects.get(pk=first.run_id).started_at)
    second = rig.send("two")
    rig.wait(second.run_id)
    states = dict(Turn.objects.filter(is_answer=True).values_list("run_id", "state"))
    assert states == {first.run_id: "partial", second.run_id: "complete"}


def test_a_message_behind_an_open_run_is_nudged_by_its_end(rig: EngineRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own nudge would find nothing to claim."""
    nudged, send = list[str](), nudges.send

    def see(task_name: str, args: tuple[str, ...], **options: Any) -> None:
        nudged.append(args[0])
        send(task_name, args, **options)

    monkeypatch.setattr(nudges, "send", see)
    may_end = threading.Event()
    rig.agent(Reply(("One",), held_by=may_end), Reply(("Two",)), Reply(("Three",)))
    first = rig.send("one")
    second, third = rig.send("two"), rig.send("three")
    assert nudged == [str(first.run_id)]
    may_end.set()
    for accepted, answer in ((first, "One"), (second, "Two"), (third, "Three")):
        assert rig.wait(accepted.run_id).answer == answer
    assert nudged == [str(accepted.run_id) for accepted in (first, second, third)]


def test_steer_joins_the_open_run_and_is_answered_by_it(rig: EngineRig) -> None:
    sent = threading.Event()
    script = rig.agent(Reply(("thinking",), held_by=sent), Reply(("Both answered",)), busy_policy="steer")
    first = rig.send("one")
    until(lambda: script.requests)
    second = rig.send("two")
    sent.set()
    assert second.run_id == first.run_id
    transcript = rig.wait(first.run_id)
    assert transcript.answer == "Both answered"
    request = [(message.role, message.content) for message in script.requests[1].messages[1:]]
    assert request == [("user", "one"), ("assistant", "thinking"), ("user", "two")]
    assert list(Event.objects.filter(type="step.completed").values_list("step", flat=True)) == [0]
    roles = Turn.objects.order_by("ordinal", "part").values_list("role", "content")
    assert list(roles) == [("user", "one"), ("user", "two"), ("assistant", "thinking"), ("assistant", "Both answered")]


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
    assert sum(run.user_turn_count for run in runs) == MANY
    assert all(run.status == RunStatus.COMPLETED for run in runs)
    assert Turn.objects.filter(is_answer=True).count() == len(runs)
    user_text = "\n\n".join(message.content for message in script.requests[-1].messages if message.role == "user")
    assert set(user_text.split("\n\n")) == {f"message {number}" for number in range(MANY)}
    assert all(Step.objects.filter(run=run).last().turns_seen == run.user_turn_count for run in runs)
