"""Messages of schedules to the chat of a channel."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents_app.providers.kinds.scripted import Reply
from audit_app.kernel.errors import InvalidInput
from sessions_app.models import ChannelAccount, Pairing, Schedule, SenderDay, Session
from sessions_app.schedules import ticks
from sessions_app.schedules.starter import Starter
from tests.fakes.telegram import FakeTelegram, private_update
from tests.support.channels import add_telegram, settle, telegram
from tests.support.engine import EngineRig
from tests.support.schedules import RARELY, make_schedule

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


@pytest.fixture
def schedule(rig: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch) -> Schedule:
    """Return a due schedule for a chat that has written once. The engine does not start it before the test does."""

    async def nothing(self: Starter) -> None: ...

    monkeypatch.setattr(Starter, "start_due", nothing)
    rig.agent(Reply(("Hello.",)), Reply(("Good morning!",)))
    add_telegram(platform)
    telegram(private_update(1, "hi"))
    assert settle(rig) == ["sent"]
    schedule = make_schedule(None, session=Session.objects.get(), cron=RARELY)
    Schedule.objects.update(next_at=timezone.now() - timedelta(seconds=1))
    return schedule


def test_a_reminder_reaches_the_chat(rig: EngineRig, platform: FakeTelegram, schedule: Schedule) -> None:
    Starter().start_part()
    assert settle(rig, 2) == ["sent", "sent"]
    assert platform.chat(501) == ["Hello.", "Good morning!"]


def test_a_disabled_account_is_a_clear_failure(schedule: Schedule) -> None:
    ChannelAccount.objects.update(is_enabled=False)
    Starter().start_part()
    assert "disabled" in schedule.ticks.get().error


@pytest.mark.parametrize("access", ["paired", "allow_list"])
def test_a_sender_who_has_lost_access_is_sent_nothing_more(rig: EngineRig, schedule: Schedule, access: str) -> None:
    ChannelAccount.objects.update(access=access)
    Starter().start_part()
    assert schedule.ticks.get().status == "failed" and "no longer write" in schedule.ticks.get().error
    with pytest.raises(InvalidInput, match="no longer write"):
        ticks.run_now(Schedule.objects.get(), actor="user:1")


def test_a_sender_with_access_is_sent_the_message(rig: EngineRig, platform: FakeTelegram, schedule: Schedule) -> None:
    ChannelAccount.objects.update(access="paired")
    Pairing.objects.create(account=ChannelAccount.objects.get(), sender_id="501")
    Schedule.objects.update(created_by="sender:Telegram:501")
    Starter().start_part()
    assert settle(rig, 2) == ["sent", "sent"]


def test_a_scheduled_message_counts_as_one_of_its_sender(schedule: Schedule) -> None:
    ChannelAccount.objects.update(messages_per_day=1)
    SenderDay.objects.all().delete()
    Schedule.objects.update(created_by="sender:Telegram:501")
    ticks.run_now(Schedule.objects.get(), actor="user:1")
    Starter().start_part()
    assert "the limit for one sender" in schedule.ticks.get(is_manual=False).error
    assert SenderDay.objects.get().sender_id == "501"
