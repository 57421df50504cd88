"""The starter: a thousand schedules of one minute delay no message, two processes share the work, times spread."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from redis import Redis

from agents_app.models import Agent, Run
from agents_app.runs import hooks
from audit_app.kernel import valkey as shared_valkey
from audit_app.kernel.database import in_db
from audit_app.kernel.ids import new_id
from sessions_app.hot_queries import STARTED_AT_ONCE
from sessions_app.models import Schedule, ScheduleTick
from sessions_app.models.schedules import SPREAD_SECONDS
from sessions_app.schedules import starter, ticks
from sessions_app.schedules.starter import Position, Starter
from sessions_app.services import NewMessage, receive
from tests.support.rest import make_agent
from tests.support.schedules import make_schedule

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

_THOUSAND = 1_000


def make_due(owner: User, agent: Agent, count: int, cron: str = "0 9 * * *") -> None:
    """Create schedules of one time that has come, each with its place in the minute."""
    now = timezone.now()
    due = now.replace(second=0, microsecond=0) - timedelta(minutes=2)
    given = {"cron": cron, "prompt": "Report.", "created_by": "user:1", "created_at": now, "updated_at": now}
    rows = [Schedule(task_id=f"s{number}", agent=agent, owner=owner, **given) for number in range(count)]
    for row in rows:
        row.next_at = due + row.delay
    Schedule.objects.bulk_create(rows)


class Counting(Starter):
    """A starter that counts its parts."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = 0

    def start_part(self, after: Position = starter._BEGIN) -> Position | None:
        self.parts += 1
        return super().start_part(after)


async def test_a_thousand_due_schedules_let_a_message_in_after_one_part(
    alice: User, default_agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    await in_db(make_due, alice, default_agent, _THOUSAND)
    counting, begun = Counting(), asyncio.Event()
    loop, handle = asyncio.get_running_loop(), ticks.handle_due

    def handle_due(schedule: Schedule, now: datetime) -> None:
        loop.call_soon_threadsafe(begun.set)
        handle(schedule, now)

    monkeypatch.setattr(ticks, "handle_due", handle_due)
    passing = asyncio.create_task(counting.start_due())
    await begun.wait()
    before = counting.parts

    def store() -> int:
        receive(NewMessage("WebChat", "default", str(alice.pk), "", "hello"), owner=alice)
        return counting.parts

    assert await in_db(store) - before <= 1
    await passing
    assert counting.parts == _THOUSAND // STARTED_AT_ONCE + 1  # one pass; its last part finds nothing
    assert await in_db(Run.objects.count) == _THOUSAND + 1


def test_what_is_due_is_handled_by_one_process_at_a_time(alice: User, valkey: Redis) -> None:
    make_due(alice, make_agent(), STARTED_AT_ONCE + 1)
    one, other = Starter(), Starter()
    position = one.start_part()
    assert position and other.start_part() is None
    assert ScheduleTick.objects.count() == STARTED_AT_ONCE
    valkey.flushall()  # as when the first one has died and its lock has expired
    assert other.start_part() is None
    assert ScheduleTick.objects.count() == STARTED_AT_ONCE + 1


def test_schedules_start_while_valkey_is_away(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_valkey.breaker, "_open_until", float("inf"))
    make_due(alice, make_agent(), 1)
    Starter().start_part()
    assert ScheduleTick.objects.get().status == "sent"


def test_broken_schedules_do_not_hold_up_those_behind_them(alice: User) -> None:
    agent = make_agent()
    make_due(alice, agent, STARTED_AT_ONCE)
    Schedule.objects.update(time_zone="Nowhere/Land", next_at=timezone.now() - timedelta(hours=1))
    healthy = make_schedule(alice, "healthy")
    Schedule.objects.filter(pk=healthy.pk).update(next_at=timezone.now())
    asyncio.run(Starter().start_due())
    assert healthy.ticks.count() == 1


def test_the_starts_of_a_time_spread_over_its_minute() -> None:
    delays = [Schedule(id=new_id(), cron="0 9 * * *").delay.seconds for _ in range(_THOUSAND)]
    assert set(delays) == set(range(SPREAD_SECONDS))
    assert max(delays.count(second) for second in set(delays)) < _THOUSAND / 10


def test_a_schedule_starts_in_the_same_second_of_its_minute_each_time(alice: User) -> None:
    schedule = make_schedule(alice, cron="0 9 * * *")
    assert schedule.next_at and schedule.next_at.minute == 0 and schedule.next_at.second == schedule.delay.seconds
    for _ in range(3):
        schedule.refresh_from_db()
        schedule = Schedule.objects.select_related("agent", "owner").get(pk=schedule.pk)
        assert schedule.next_at
        ticks.handle_due(schedule, schedule.next_at)
    starts = {tick.due_at.strftime("%H:%M:%S") for tick in schedule.ticks.all()}
    schedule.refresh_from_db()
    assert starts == {"09:00:00"}  # the history has the times of the expression
    assert schedule.next_at and schedule.next_at.second == schedule.delay.seconds


def test_a_single_time_starts_exactly_then(alice: User) -> None:
    moment = datetime(2199, 1, 1, 8, 0, 7, tzinfo=UTC)
    assert make_schedule(alice, at=moment).next_at == moment


def test_a_time_that_was_stored_without_its_second_is_handled_once(alice: User) -> None:
    """As a process of the release before stores it."""
    schedule = make_schedule(alice, cron="0 9 * * *")
    first = datetime(2026, 5, 4, 9, tzinfo=UTC)
    Schedule.objects.filter(pk=schedule.pk).update(next_at=first)
    schedule = Schedule.objects.select_related("agent", "owner").get(pk=schedule.pk)
    ticks.handle_due(schedule, first)
    schedule.refresh_from_db()
    assert schedule.next_at == first + timedelta(days=1) + schedule.delay
    assert schedule.ticks.count() == 1


def test_only_engines_start_schedules() -> None:
    assert starter.run in hooks.chores
