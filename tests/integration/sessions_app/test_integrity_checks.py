"""Each invariant finds the rows that break it, and nothing in intact rows."""

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
from audit_app.kernel import liveness
from audit_app.models import AuditEntry, Event, TimelineHead
from sessions_app.integrity_checks import INVARIANTS, find_violations
from sessions_app.models import Branch, ChannelAccount, Checkpoint, Delivery, InboundMessage, Session, Turn
from sessions_app.services import import_history, open_session
from tests.chaos.crash_gateway import Gateway
from tests.chaos.scenario_player import Play
from tests.chaos.scenarios import SCENARIOS
from tools_app.models import Approval, InputRequest, ToolExecution
from tools_app.registry import tools

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def whole(valkey: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[UUID]:
    """Store a session with a run of two tool rounds and an approval, and a second session with two runs."""
    gateway = Gateway(monkeypatch)
    first, second = Play(SCENARIOS[1], gateway, valkey), Play(SCENARIOS[0], gateway, valkey)
    with tools.override(*first.tools):
        first.run()
    with tools.override(*second.tools):
        yield second.run()
    gateway.close()


def run_sql(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def open_again(**columns: Any) -> None:
    """Set the last run to a state as if it had not ended."""
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
    """Store a part of the answer of a run as a delivery that is being sent."""
    deliver(run=Run.objects.first(), **{"status": "sending", **columns})


def take_in(**columns: Any) -> None:
    account, _ = ChannelAccount.objects.get_or_create(channel="fake")
    now = timezone.now()
    values = {"sender_id": "s", "chat_id": "c", "sent_at": now, "received_at": now, **columns}
    InboundMessage.objects.create(account=account, message_id="1", **values)


def take_in_for_one_turn(*messages: dict[str, Any]) -> None:
    """Store messages of one user turn, by the columns in which they differ. `after`: seconds after the first one."""
    turn, now = Turn.objects.filter(role="user").first(), timezone.now()
    for columns in messages:
        received_at = now + timedelta(seconds=columns.pop("after", 0))
        take_in(**{"turn": turn, "run": turn.run, "session": turn.session, "received_at": received_at, **columns})


def take_in_twice() -> None:
    take_in_for_one_turn({}, {"after": 3})


def begin_nowhere() -> None:
    Branch.objects.create(
        session=Session.objects.first(), number=1, parent=0, replaces=0, ordinal=9, created_at=timezone.now()
    )


def summarise_nothing() -> None:
    session = Session.objects.first()
    Checkpoint.objects.create(
        session=session,
        run=Run.objects.first(),
        ordinal=99,
        index=0,
        reason="asked",
        summary="All.",
        covered_turns=0,
        tokens_before=9,
        tokens_after=1,
        created_at=timezone.now(),
    )


def start_child(**columns: Any) -> Run:
    """Store a child of the last run, which has completed."""
    parent = Run.objects.order_by("-id").first()
    return Run.objects.create(
        parent=parent,
        root=parent,
        conversation_id=parent.conversation_id,
        ordinal=2**30,
        agent=parent.agent,
        user_turn_count=0,
        created_at=timezone.now(),
        **columns,
    )


BREAKS: dict[str, Callable[[], Any]] = {
    "session {0} has {1} active runs": two_active,
    "run {0} ({1} {2}) is stuck: it has no owner, no due time, no open tool execution and no run that it awaits": (
        lambda: open_again(status="waiting", waiting_on="tools")
    ),
    "child run {0} is {1} although its listener {2} has ended": lambda: start_child(status="waiting"),
    "child run {0} is on its own although its listener {1} is open": lambda: [
        start_child(status="waiting", is_on_its_own=True),
        Run.objects.update(ended_at=None),
    ],
    "child run {0} is {1} without a deadline": lambda: start_child(status="waiting"),
    "run {1} got {2} reports of the end of the child run {0}": lambda: start_child(
        status="completed", ended_at=timezone.now()
    ),
    "run {0} has completed with {1} messages, of which its model got {2}": lambda: Run.objects.update(
        child_count=1, user_turn_count=3
    ),
    "child run {0} has a turn": lambda: Turn.objects.filter(role="user").update(run=start_child(status="completed")),
    "run {0} ({1}) is due but not claimed": lambda: open_again(
        status="queued", ready_at=timezone.now() - timedelta(minutes=1)
    ),
    "run {0} is {1} but has an owner": lambda: Run.objects.update(owner=uuid4()),
    "execution {0} ({1}) is stuck: it has no owner, no nudge time, and no pending approval or question": lambda: (
        ToolExecution.objects.update(status="Running")
    ),
    "run {0} ({1}) has {2} answers": two_answers,
    "the answer of run {0} differs from its text in the conversation or in the last step": lambda: Turn.objects.filter(
        is_answer=True
    ).update(content="else"),
    "step {1} of run {0} requested {2} tool calls but has {3} executions": lambda: ToolExecution.objects.filter(
        tool="peek"
    ).update(step=7),
    "execution {0} is {1} although its run has ended": lambda: ToolExecution.objects.update(status="Pending"),
    "run {0} has {1} tool executions but {2} tool turns": lambda: Turn.objects.filter(role="tool").delete(),
    "run {0} ({1}) has {2} terminal events": lambda: Event.objects.filter(type="run.completed").update(type="x"),
    "run {0} is {1} but its terminal event is {2}": lambda: Event.objects.filter(type="run.completed").update(
        type="run.failed"
    ),
    "run {0} has {1} message.completed events": lambda: Event.objects.filter(type="run.started").update(
        type="message.completed"
    ),
    "delivery {0} is {1}, which its sent_at contradicts": lambda: deliver(status="sent"),
    "run {0} has ended without a delivery to its channel": lambda: take_in(run=Run.objects.first()),
    "the delivery of run {0} has {1} of {2} parts": lambda: deliver_answer(parts=2),
    "run {0} has {1} sent deliveries but {2} delivery.sent events": lambda: deliver_answer(
        status="sent", sent_at=timezone.now()
    ),
    "delivery {0} is pending but expired at {1}": lambda: deliver(
        status="pending", expires_at=timezone.now() - timedelta(minutes=1)
    ),
    "execution {0} ({1}, {2}) was attempted {3} times": lambda: ToolExecution.objects.filter(effect="once").update(
        attempts=2
    ),
    "execution {0} was attempted but its approval is {1}": lambda: Approval.objects.update(status="denied"),
    "run {0} has {1} steps and compactions but numbers from {2} to {3}": lambda: Step.objects.filter(index=1).delete(),
    "step {1} of run {0} has fence {2}, which is out of order": lambda: Step.objects.filter(index=0).update(fence=9),
    "the timeline of session {0} has a gap or a wrong head: {1} events, head {2}": lambda: TimelineHead.objects.update(
        seq=F("seq") + 1
    ),
    "event {1} of session {0} is not later than the event before it": lambda: Event.objects.update(ts=1),
    "turn {0} of session {1} has no run of that session and ordinal": lambda: Turn.objects.update(run=None),
    "run {0} counts {1} user turns but has {2}": lambda: Run.objects.update(user_turn_count=3),
    "turn {0} of session {1} contradicts the active branch of its session": lambda: Turn.objects.filter(part=0).update(
        is_off_path=True
    ),
    "branch {1} of session {0} has no run at its beginning, or replaces a later one": begin_nowhere,
    "inbound message {0} has neither a run nor a reason": take_in,
    "inbound message {0} is not a user turn of its run {1}": lambda: take_in(run=Run.objects.first()),
    "turn {0} comes from inbound messages that do not belong together, {1} and {2}": take_in_twice,
    "run {0} counts {1} and {2} tokens, fewer than its steps": lambda: Run.objects.update(input_tokens=1),
    "run {0} is {1} but has reserved {2} tokens": lambda: Run.objects.update(reserved_tokens=1),
    "session {0}: {2} events have no audit entry {1}": lambda: AuditEntry.objects.filter(
        action="MessageReceived"
    ).delete(),
    "the summary {0} of session {1} has no turns, or differs from its step": summarise_nothing,
    "run {0} has {1} run.started events": lambda: Event.objects.filter(type="run.started").update(type="x"),
}


def test_intact_rows_break_no_rule(whole: UUID) -> None:
    assert find_violations() == []


def test_an_imported_history_needs_no_run(whole: UUID) -> None:
    before = [Message("user", "hi"), Message("assistant", "Hello!")]
    import_history(open_session(owner=User.objects.create_user("bob")), before)
    assert find_violations() == []


@pytest.mark.parametrize(
    ("second", "is_intact"),
    [
        ({"after": 0.7}, True),
        ({"after": 0.7, "sender_id": "t"}, False),
        ({"after": 0.7, "chat_id": "d"}, False),
        ({"after": 3}, False),
        ({"after": 3, "metadata": {"burstMs": 2500}}, True),  # stored under another setting than today's
        ({"after": 3, "metadata": {"burstMs": 1000}}, False),
        ({"after": 50, "metadata": {"albumId": "a"}}, True),
        ({"after": 50, "metadata": {"albumId": "b"}}, False),
    ],
)
def test_a_turn_comes_from_a_burst_or_an_album(
    whole: UUID, settings: Any, second: dict[str, Any], is_intact: bool
) -> None:
    settings.KOMAND_BURST_MS = 700
    first = {"metadata": {"albumId": "a"}} if "metadata" in second else {}
    take_in_for_one_turn(first, dict(second))
    found = [violation.text for violation in find_violations() if "do not belong together" in violation.text]
    assert bool(found) != is_intact


def test_a_tool_execution_may_wait_for_an_answer(whole: UUID) -> None:
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
    assert [str(found) for found in find_violations() if "is stuck" in found.text] == []


def test_steps_deleted_by_retention_are_no_gap(whole: UUID, settings: Any) -> None:
    settings.KOMAND_STEP_DAYS = 30
    Run.objects.update(created_at=timezone.now() - timedelta(days=31))
    Step.objects.filter(index=0).delete()
    assert find_violations() == []


def test_requests_of_releases_that_audited_them_as_started_are_complete(whole: UUID) -> None:
    AuditEntry.objects.filter(action="ToolExecutionStarted").delete()
    requests = AuditEntry.objects.filter(action="ToolCallRequested")
    assert requests.update(action="ToolExecutionStarted") and find_violations() == []
    AuditEntry.objects.filter(action="ToolExecutionStarted").delete()
    assert {found.number for found in find_violations()} == {10}


def test_each_rule_finds_its_violations(whole: UUID, subtests: Any) -> None:
    for finding, break_it in BREAKS.items():
        with subtests.test(finding), transaction.atomic():
            break_it()
            wanted = re.compile(re.sub(r"\\\{\d\\\}", ".*", re.escape(finding)))
            assert [found for found in find_violations() if wanted.fullmatch(found.text)]
            transaction.set_rollback(True)
    assert find_violations() == []


def test_every_rule_is_tested() -> None:
    assert {invariant.finding for invariant in INVARIANTS} == set(BREAKS)
    assert {invariant.number for invariant in INVARIANTS} == set(range(1, 11))


def test_only_rows_of_dead_processes_are_orphaned(whole: UUID) -> None:
    living, dead = uuid4(), uuid4()
    with pytest.MonkeyPatch.context() as patch:
        alive = [
            liveness.ProcessView(living, "runs", 1, "here", True),
            liveness.ProcessView(dead, "x", 2, "here", False),
        ]
        patch.setattr("sessions_app.integrity_checks.liveness.list_processes", lambda: alive)
        first, last = Run.objects.order_by("id").first(), Run.objects.order_by("id").last()
        Run.objects.filter(pk=first.pk).update(owner=living)
        Run.objects.filter(pk=last.pk).update(owner=dead)
        deliver(status="sending", owner=dead)
        texts = [found.text for found in find_violations() if "not alive" in found.text]
    assert [text.split()[0] for text in texts] == ["run", "delivery"]
    assert all(str(dead) in text or dead.hex in text for text in texts)


def test_the_command_prints_each_violation_and_exits_with_1(whole: UUID) -> None:
    assert "all invariants hold" in check()
    Run.objects.update(output_tokens=F("output_tokens") + 1)  # a failed call whose usage was reported
    assert "all invariants hold" in check()
    Run.objects.filter(conversation_id=whole).update(input_tokens=1)
    with pytest.raises(CommandError) as failure:
        check()
    assert failure.value.returncode == 1
    out = StringIO()
    with pytest.raises(CommandError):
        call_command("check_invariants", grace=0.0, stdout=out)
    assert re.fullmatch(r"invariant 9: run \S+ counts 1 and 16 tokens, fewer than its steps\n", out.getvalue())


def test_a_violation_that_the_second_check_does_not_find_is_not_printed(
    whole: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    Run.objects.update(input_tokens=F("input_tokens") - 1)
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        Run.objects.update(input_tokens=F("input_tokens") + 1)

    monkeypatch.setattr("sessions_app.management.commands.check_invariants.time.sleep", wait)
    assert "all invariants hold" in check(grace=7.0)
    assert waits == [7.0]


def check(grace: float = 0.0) -> str:
    out = StringIO()
    call_command("check_invariants", grace=grace, stdout=out)
    return out.getvalue()
