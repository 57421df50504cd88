"""The scheduler of deliveries, when many of them have to wait."""

from collections import Counter
from typing import Any

import pytest

from audit_app.kernel import nudges
from audit_app.kernel.database import in_db
from sessions_app.channels import accounts
from sessions_app.channels.accounts import Adapters
from sessions_app.channels.outbound import outbox, scheduler, transitions
from sessions_app.channels.outbound.outbox import Destination
from sessions_app.channels.outbound.rate_limiter import RateLimiter
from sessions_app.channels.outbound.scheduler import Scheduler
from sessions_app.models import ChannelAccount, Delivery
from sessions_app.platforms.messages import Chat, Target
from tests.fakes.telegram import TOKEN

pytestmark = pytest.mark.django_db(transaction=True)

LOOK_AT, PAUSE = 4, 600.0
GROUP = "-100777"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def few_at_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "_LOOK_AT", LOOK_AT)
    monkeypatch.setattr(nudges, "send", lambda *args, **options: None)


def add(name: str, **config: Any) -> ChannelAccount:
    return accounts.add_account("telegram", name, config=config, secrets={"bot_token": TOKEN})[0]


def plan(account: ChannelAccount, chat: str, *topics: int, press_id: str = "") -> None:
    for topic in topics or ("",):
        target = Target(Chat(chat, "group", str(topic)), press_id=press_id)
        outbox.plan_notice(Destination(account, target), f"{account}:{chat}:{topic}:{press_id}", "hello")


def plan_a_forum() -> ChannelAccount:
    account = add("main", chat_seconds=PAUSE)
    plan(account, GROUP, *range(3 * LOOK_AT))
    return account


def plan_behind_a_forum() -> None:
    account = plan_a_forum()
    plan(account, "501")
    plan(add("other"), GROUP)
    plan(account, GROUP, press_id="9")


async def find(it: Scheduler) -> list[tuple[str, str, str]]:
    ready = await it.find_ready((), Counter())
    await in_db(Delivery.objects.filter(pk__in=[row.pk for row in ready]).update, status="sent")
    return [(row.account.account_id, row.target["chat"], row.target["thread"] or row.target["press"]) for row in ready]


async def test_topics_that_wait_for_the_pace_of_their_group_hide_nothing() -> None:
    await in_db(plan_behind_a_forum)
    it = Scheduler(Adapters(), RateLimiter(), lambda: None)
    ready = await find(it)
    assert ready == [("main", GROUP, "0"), ("main", "501", ""), ("other", GROUP, ""), ("main", GROUP, "9")]


async def test_who_is_known_to_wait_is_not_looked_at_until_that_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    list_due, looked_at, clock = transitions.list_due, list[int](), Clock()

    def look(*args: Any) -> list[Delivery]:
        found = list_due(*args)
        looked_at.append(len(found))
        return found

    await in_db(plan_a_forum)
    monkeypatch.setattr(transitions, "list_due", look)
    it = Scheduler(Adapters(), RateLimiter(clock), lambda: None)
    for topic in ("0", "1"):
        assert await find(it) == [("main", GROUP, topic)]
        looked_at.clear()
        assert await find(it) == [] and looked_at == [0]
        clock.now += PAUSE


async def test_one_account_takes_no_more_than_its_share_at_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "_MOST_OF_ACCOUNT", 2)

    def plan_much() -> None:
        much = add("much")
        for chat in range(5):
            plan(much, f"{chat}")
        plan(add("little"), "501")

    await in_db(plan_much)
    ready = await find(Scheduler(Adapters(), RateLimiter(), lambda: None))
    assert ready == [("much", "0", ""), ("much", "1", ""), ("little", "501", "")]
