"""Schedules: each due time sends its message once, whoever looks; what was missed; failures; chats of channels."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from agents_app.models import Run
from agents_app.runs import transitions
from agents_app.runs.next_step import End
from agents_app.types import RunStatus
from audit_app.kernel.errors import Conflict, InvalidInput, NotFound
from audit_app.models import AuditEntry
from sessions_app.models import Schedule, ScheduleTick, Session, Turn
from sessions_app.schedules import plans, ticks
from sessions_app.schedules.starter import Starter
from tests.support.rest import make_session, make_user
from tests.support.schedules import RARELY, make_schedule

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

HOUR = timedelta(hours=1)


def due_since(schedule: Schedule, hours: int, minutes: int = 30) -> datetime:
    """Make the schedule's next time lie in the past; return the present moment, so many hours after it."""
    first = datetime(2026, 5, 4, 10, tzinfo=UTC)
    Schedule.objects.filter(pk=schedule.pk).update(next_at=first)
    return first + hours * HOUR + timedelta(minutes=minutes)


def handle(schedule: Schedule, now: datetime) -> None:
    ticks.handle_due(Schedule.objects.select_related("agent", "owner", "session__agent").get(pk=schedule.pk), now)


def statuses(schedule: Schedule) -> list[tuple[int, str]]:
    return [(tick.due_at.hour, tick.status) for tick in schedule.ticks.order_by("due_at")]


def actions() -> list[str]:
    return list(AuditEntry.objects.order_by("id").values_list("action", flat=True))


def test_a_due_time_sends_the_message_in_a_session_of_its_own(alice: User) -> None:
    schedule = make_schedule(alice)
    handle(schedule, due_since(schedule, 0))
    turn = Turn.objects.select_related("session", "run").get()
    assert (turn.content, turn.session.owner, turn.run.actor) == ("Report.", alice, f"user:{alice.pk}")
    tick = schedule.ticks.get()
    assert (tick.status, tick.run_id) == ("sent", turn.run_id)
    assert turn.run.options["is_unattended"]
    schedule.refresh_from_db()
    assert schedule.next_at == datetime(2026, 5, 4, 11, tzinfo=UTC) + schedule.delay
    assert actions().count("CronExecuted") == 1


def test_two_processes_that_look_at_once_send_one_message(alice: User) -> None:
    schedule = make_schedule(alice)
    now = due_since(schedule, 0)
    seen = [Schedule.objects.select_related("agent", "owner", "session__agent").get(pk=schedule.pk) for _ in range(2)]
    for row in seen:
        ticks.handle_due(row, now)
    assert (Run.objects.count(), schedule.ticks.count()) == (1, 1)


@pytest.mark.parametrize(
    ("missed", "late_minutes", "expected"),
    [
        ("latest", 30, [(10, "skipped"), (11, "skipped"), (12, "sent")]),
        ("skip", 30, [(10, "skipped"), (11, "skipped"), (12, "skipped")]),
        ("skip", 1, [(10, "skipped"), (11, "skipped"), (12, "sent")]),
        ("all", 30, [(10, "sent"), (11, "sent"), (12, "sent")]),
    ],
)
def test_missed_times(alice: User, missed: str, late_minutes: int, expected: Any) -> None:
    schedule = make_schedule(alice, missed=missed)
    now = due_since(schedule, 2, late_minutes)
    for _ in range(5):
        schedule.refresh_from_db()
        if schedule.next_at and schedule.next_at <= now:
            handle(schedule, now)
    assert statuses(schedule) == expected
    schedule.refresh_from_db()
    assert schedule.next_at == datetime(2026, 5, 4, 13, tzinfo=UTC) + schedule.delay


def test_a_single_time_is_over_afterwards(alice: User) -> None:
    schedule = make_schedule(alice, at=timezone.now() + HOUR)
    handle(schedule, due_since(schedule, 5))
    schedule.refresh_from_db()
    assert schedule.next_at is None and statuses(schedule) == [(10, "sent")]


def test_a_message_that_is_refused_is_recorded_and_the_schedule_goes_on(alice: User) -> None:
    schedule = make_schedule(alice)
    schedule.agent.is_shared_with_everyone = False
    schedule.agent.save()
    handle(schedule, due_since(schedule, 0))
    tick = schedule.ticks.get()
    assert (tick.status, Run.objects.count()) == ("failed", 0) and tick.error
    schedule.refresh_from_db()
    assert schedule.next_at == datetime(2026, 5, 4, 11, tzinfo=UTC) + schedule.delay
    assert "CronFailed" in actions()


def test_a_run_that_fails_is_audited_for_its_schedule_with_the_session(alice: User) -> None:
    schedule = make_schedule(alice)
    handle(schedule, due_since(schedule, 0))
    run = Run.objects.get()
    with transaction.atomic():
        transitions.end(run, End(RunStatus.FAILED, "model_unavailable", "It is away."), held_by=None)
    sent, failed = AuditEntry.objects.filter(action__startswith="Cron").order_by("id")
    assert (sent.action, failed.action) == ("CronExecuted", "CronFailed")
    assert sent.session_id == failed.session_id == run.conversation_id
    assert (failed.details["schedule"], failed.details["code"]) == (schedule.task_id, "model_unavailable")


def test_a_paused_schedule_sends_nothing_and_resumes_with_the_next_time(alice: User) -> None:
    schedule = make_schedule(alice)
    plans.pause(schedule, is_paused=True, actor="user:1")
    handle(schedule, due_since(schedule, 0))
    assert not schedule.ticks.exists() and not Turn.objects.exists()
    plans.pause(schedule, is_paused=False, actor="user:1")
    assert schedule.next_at and schedule.next_at > timezone.now()


def test_the_starter_finds_what_is_due(alice: User) -> None:
    schedule, later = make_schedule(alice, cron=RARELY), make_schedule(alice, "later", cron=RARELY)
    Schedule.objects.filter(pk=schedule.pk).update(next_at=timezone.now() - timedelta(seconds=2))
    Starter().start_part()
    assert schedule.ticks.count() == 1 and not later.ticks.exists()


def test_run_now_keeps_the_times(alice: User) -> None:
    schedule = make_schedule(alice, session=make_session(alice))
    run_id = ticks.run_now(schedule, actor="user:9")
    tick = ScheduleTick.objects.get()
    assert "is_unattended" not in Run.objects.get().options
    assert tick.is_manual and tick.run_id == run_id and Turn.objects.get().session == schedule.session
    before = schedule.next_at
    schedule.refresh_from_db()
    assert schedule.next_at == before


def test_without_its_chat_a_schedule_of_a_sender_fails_with_what_to_do(alice: User) -> None:
    session = make_session(alice, key="Fake:main:7")
    Session.objects.filter(pk=session.pk).update(owner=None)
    schedule = make_schedule(None, session=session)
    Session.objects.filter(pk=session.pk).update(deleted_at=timezone.now())
    handle(schedule, due_since(schedule, 0))
    assert "Delete the schedule" in schedule.ticks.get().error


@pytest.mark.parametrize(
    ("plan", "code"),
    [
        ({"cron": "", "at": None}, "bad_time"),
        ({"cron": "0 * * * *", "at": datetime(2200, 1, 1, tzinfo=UTC)}, "bad_time"),
        ({"cron": "", "at": datetime(2020, 1, 1, tzinfo=UTC)}, "bad_time"),
        ({"prompt": " "}, "prompt_length"),
    ],
)
def test_a_plan_that_cannot_work_is_refused(plan: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        plans.Plan(**{"prompt": "Report.", "cron": "0 * * * *", **plan}).next_at(timezone.now())
    assert refusal.value.code == code


def test_a_second_schedule_under_the_same_id_is_refused(alice: User) -> None:
    make_schedule(alice)
    with pytest.raises(Conflict) as refusal:
        make_schedule(alice)
    assert refusal.value.code == "schedule_exists"
    make_schedule(make_user("bob"))


def test_a_schedule_that_was_deleted_meanwhile_is_not_found(alice: User) -> None:
    schedule = make_schedule(alice)
    Schedule.objects.all().delete()
    with pytest.raises(NotFound, match="no such schedule"):
        plans.pause(schedule, is_paused=True, actor="user:1")
