"""Each invariant is seen to find what breaks it, in rows that were whole before, and to find nothing in whole ones."""

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from io import StringIO
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from agents_app.models import Run, Step
from agents_app.types import Message
from audit_app import liveness
from audit_app.models import AuditEntry, Event, TimelineHead
from sessions_app import integrity_checks
from sessions_app.integrity_checks import INVARIANTS, find_violations
from sessions_app.models import ChannelAccount, Delivery, InboundMessage, Turn
from sessions_app.services import open_session
from tests.chaos.crash_gateway import Gateway
from tests.chaos.scenario_player import Play
from tests.chaos.scenarios import SCENARIOS
from tools_app.models import Approval, InputRequest, ToolExecution

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def whole(valkey: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[UUID]:
    """A session with a run of two tool rounds and an approval, and a second session with two runs."""
    gateway = Gateway(monkeypatch)
    Play(SCENARIOS[1], gateway, monkeypatch, valkey).run()
    yield Play(SCENARIOS[0], gateway, monkeypatch, valkey).run()
    gateway.close()


def run_sql(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def open_again(**columns: Any) -> None:
    """The last run as if it had not ended, in the given state."""
    last = Run.objects.order_by("-id").first()
    Run.objects.filter(pk=last.pk).update(ended_at=None, **columns)


def two_active() -> None:
    run_sql("DROP INDEX run_one_active_per_conversation")
    session = Run.objects.filter(ordinal=1).get().conversation_id
    Run.objects.filter(conversation_id=session).update(status="waiting")


def two_answers() -> None:
    run_sql("DROP INDEX turn_one_answer_per_run")
    Turn.objects.filter(role="tool").update(is_answer=True)


def deliver(**columns: Any) -> None:
    account, _ = ChannelAccount.objects.get_or_create(channel="fake")
    now = timezone.now()
    times = {"ready_at": now, "expires_at": now, "created_at": now}
    values = {"dedupe_key": uuid4().hex, "ordering_key": "l", **times, **columns}
    Delivery.objects.create(account=account, **values)


def deliver_answer(**columns: Any) -> None:
    """A part of the answer of a run, on its way."""
    deliver(run=Run.objects.first(), **{"status": "sending", **columns})


def take_in(**columns: Any) -> None:
    account, _ = ChannelAccount.objects.get_or_create(channel="fake")
    now = timezone.now()
    InboundMessage.objects.create(
        account=account, message_id="1", sender_id="s", chat_id="c", sent_at=now, received_at=now, **columns
    )


def take_in_twice() -> None:
    turn = Turn.objects.filter(role="user").first()
    for _ in range(2):
        take_in(turn=turn, run=turn.run, session=turn.session)


BREAKS: dict[str, Callable[[], Any]] = {
    "session {0} has {1} active runs": two_active,
    "nothing will move run {0} ({1} {2})": lambda: open_again(status="waiting", waiting_on="tools"),
    "run {0} ({1}) is due and nobody takes it": lambda: open_again(
        status="queued", ready_at=timezone.now() - timedelta(minutes=1)
    ),
    "run {0} is {1} and still has a holder": lambda: Run.objects.update(owner=uuid4()),
    "nothing will move execution {0} ({1})": lambda: ToolExecution.objects.update(status="Running"),
    "run {0} ({1}) has {2} answers": two_answers,
    "the answer of run {0} is not what its last step said": lambda: Turn.objects.filter(is_answer=True).update(
        content="else"
    ),
    "step {1} of run {0} asked for {2} calls and has {3}": lambda: ToolExecution.objects.filter(tool="peek").update(
        step=7
    ),
    "execution {0} is {1} although its run has ended": lambda: ToolExecution.objects.update(status="Pending"),
    "run {0} made {1} calls, the conversation shows {2}": lambda: Turn.objects.filter(role="tool").delete(),
    "run {0} ({1}) has told its end {2} times": lambda: Event.objects.filter(type="run.completed").update(type="x"),
    "run {0} is {1} and told {2}": lambda: Event.objects.filter(type="run.completed").update(type="run.failed"),
    "the answer of run {0} was announced {1} times": lambda: Event.objects.filter(type="run.started").update(
        type="message.completed"
    ),
    "delivery {0} is {1} and its time says otherwise": lambda: deliver(status="sent"),
    "run {0} has ended and its channel is told nothing": lambda: take_in(run=Run.objects.first()),
    "the delivery of run {0} has {2} parts and {1} of them": lambda: deliver_answer(parts=2),
    "{1} deliveries of run {0} were sent, {2} are told": lambda: deliver_answer(status="sent", sent_at=timezone.now()),
    "delivery {0} should have been sent before {1}": lambda: deliver(
        status="pending", expires_at=timezone.now() - timedelta(minutes=1)
    ),
    "execution {0} ({1}, {2}) was begun {3} times": lambda: ToolExecution.objects.filter(effect="once").update(
        attempts=2
    ),
    "execution {0} was begun, its approval is {1}": lambda: Approval.objects.update(status="denied"),
    "run {0} has {1} steps, the last of them is number {2}": lambda: Step.objects.filter(index=1).delete(),
    "step {1} of run {0} has fence {2}, which is not its turn": lambda: Step.objects.filter(index=0).update(fence=9),
    "the timeline of session {0} has {1} events up to number {2}": lambda: TimelineHead.objects.update(
        seq=F("seq") + 1
    ),
    "event {1} of session {0} is not later than the one before it": lambda: Event.objects.update(ts=1),
    "turn {0} of session {1} has no run of its session and place": lambda: Turn.objects.update(run=None),
    "run {0} should answer {1} messages and has {2}": lambda: Run.objects.update(words=3),
    "inbound message {0} has neither a run nor a reason": take_in,
    "inbound message {0} is not a message of its run {1}": lambda: take_in(run=Run.objects.first()),
    "turn {0} came in {1} times": take_in_twice,
    "run {0} says {1} and {2} tokens, its steps say otherwise": lambda: Run.objects.update(input_tokens=1),
    "session {0}: {2} facts lack their entry {1} in the audit log": lambda: AuditEntry.objects.filter(
        action="MessageReceived"
    ).delete(),
    "run {0} has told its beginning {1} times": lambda: Event.objects.filter(type="run.started").update(type="x"),
}


def test_whole_rows_break_nothing(whole: UUID) -> None:
    assert find_violations() == []


def test_what_was_said_elsewhere_before_needs_no_run(whole: UUID) -> None:
    before = [Message("user", "hi"), Message("assistant", "Hello!")]
    open_session(owner=User.objects.create_user("bob"), history=before)
    assert find_violations() == []


def test_a_call_may_wait_for_the_answer_of_a_person(whole: UUID) -> None:
    execution = ToolExecution.objects.filter(tool="peek").first()
    assert execution is not None
    ToolExecution.objects.filter(pk=execution.pk).update(status="Pending", renudge_at=None, attempts=0)
    now = timezone.now()
    InputRequest.objects.create(
        execution=execution,
        run_id=execution.run_id,
        session_id=execution.session_id,
        question="Which?",
        created_at=now,
        expires_at=now + timedelta(hours=1),
    )
    assert [str(found) for found in find_violations() if "nothing will move" in found.text] == []


def test_steps_that_retention_took_are_no_hole(whole: UUID, settings: Any) -> None:
    settings.KOMAND_STEP_DAYS = 30
    Run.objects.update(created_at=timezone.now() - timedelta(days=31))
    Step.objects.filter(index=0).delete()
    assert find_violations() == []


def test_each_rule_finds_what_breaks_it(whole: UUID, subtests: Any) -> None:
    for finding, break_it in BREAKS.items():
        with subtests.test(finding), transaction.atomic():
            break_it()
            wanted = re.compile(re.sub(r"\\\{\d\\\}", ".*", re.escape(finding)))
            assert [found for found in find_violations() if wanted.fullmatch(found.text)]
            transaction.set_rollback(True)
    assert find_violations() == []


def test_no_rule_is_left_out() -> None:
    assert {invariant.finding for invariant in INVARIANTS} == set(BREAKS)
    assert {invariant.number for invariant in INVARIANTS} == set(range(1, 11))


def test_what_a_dead_process_holds_is_found_and_what_a_living_one_holds_is_not(whole: UUID) -> None:
    living, dead = uuid4(), uuid4()
    with pytest.MonkeyPatch.context() as patch:
        alive = [
            liveness.ProcessView(living, "runs", 1, "here", True),
            liveness.ProcessView(dead, "x", 2, "here", False),
        ]
        patch.setattr(integrity_checks.liveness, "list_processes", lambda: alive)
        first, last = Run.objects.order_by("id").first(), Run.objects.order_by("id").last()
        Run.objects.filter(pk=first.pk).update(owner=living)
        Run.objects.filter(pk=last.pk).update(owner=dead)
        deliver(status="sending", owner=dead)
        told = [found.text for found in find_violations() if "not alive" in found.text]
    assert [text.split()[0] for text in told] == ["run", "delivery"]
    assert all(str(dead) in text or dead.hex in text for text in told)


def test_the_command_tells_each_violation_in_a_line_and_ends_with_1(whole: UUID) -> None:
    assert "all invariants hold" in check()
    Run.objects.filter(conversation_id=whole).update(input_tokens=1)
    with pytest.raises(CommandError) as failure:
        check()
    assert failure.value.returncode == 1
    out = StringIO()
    with pytest.raises(CommandError):
        call_command("check_invariants", grace=0.0, stdout=out)
    assert re.fullmatch(r"invariant 9: run \S+ says 1 and 15 tokens, its steps say otherwise\n", out.getvalue())


def test_what_is_gone_at_the_second_look_is_not_told(whole: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    Run.objects.update(input_tokens=F("input_tokens") + 1)
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        Run.objects.update(input_tokens=F("input_tokens") - 1)

    monkeypatch.setattr("sessions_app.management.commands.check_invariants.time.sleep", wait)
    assert "all invariants hold" in check(grace=7.0)
    assert waits == [7.0]


def check(grace: float = 0.0) -> str:
    out = StringIO()
    call_command("check_invariants", grace=grace, stdout=out)
    return out.getvalue()
