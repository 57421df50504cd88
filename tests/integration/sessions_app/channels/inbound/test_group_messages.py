"""Messages of groups that are not for the agent: how long they are stored, and whose context they become."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from audit_app.retention import list_rules
from sessions_app.channels import accounts
from sessions_app.channels.inbound import group_messages
from sessions_app.models import ChannelAccount, Delivery, GroupMessage
from tests.fakes.telegram import FakeTelegram, group_update
from tests.support.channels import add_telegram, settle, telegram
from tests.support.engine import EngineRig

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

MENTION = {"entities": [{"type": "mention", "offset": 0, "length": 16}]}
BOB = {"id": 502, "is_bot": False, "first_name": "Bob"}


def talk(number: int, text: str, **extra: Any) -> None:
    """Deliver a message of Bob in the group that is not for the agent."""
    telegram(group_update(number, text, user=502, **{"from": BOB, **extra}))


def test_the_next_message_brings_what_was_said_before_once(rig: EngineRig, platform: FakeTelegram) -> None:
    script = rig.agent(Reply(("fine",)))
    account = add_telegram(platform)
    talk(1, "We decided to ship on Friday.")
    talk(1, "We decided to ship on Friday.")
    talk(2, "In another group", chat=-100888)
    talk(3, "In a topic", is_topic_message=True, message_thread_id=7)
    assert GroupMessage.objects.count() == 3 and not Run.objects.exists() and not Delivery.objects.exists()
    telegram(group_update(4, "@komand_test_bot when do we ship?", **MENTION))
    settle(rig)
    asked = script.requests[-1].messages[-1].content
    assert (
        "not to you, by\nBob, 2026-05-28 20:26:\n> We decided to ship on Friday.\nAuthor of the message: Zoë" in asked
    )
    assert asked.count("Friday") == 1 and "another" not in asked and "topic" not in asked
    talk(5, "Or on Monday.")
    telegram(group_update(6, "@komand_test_bot sure?", **MENTION))
    settle(rig, 2)
    asked = script.requests[-1].messages[-1].content
    assert "> Or on Monday." in asked and "Friday" not in asked
    account.delete()
    assert not GroupMessage.objects.exists()


def test_changes_by_the_platform_are_honoured(rig: EngineRig, platform: FakeTelegram) -> None:
    account = add_telegram(platform)
    talk(1, "on Friday")
    edited = group_update(1, "on Monday", user=502, **{"from": BOB})
    telegram({"update_id": 5, "edited_message": edited["message"]})
    assert GroupMessage.objects.get().text == "on Monday"
    stranger = group_update(1, "never", user=503)
    telegram({"update_id": 6, "edited_message": stranger["message"]})
    assert GroupMessage.objects.get().text == "on Monday"
    assert group_messages.delete(account, "message:-100777:1") == 1


@pytest.mark.parametrize(
    ("config", "kept"),
    [({}, 2), ({"group_tokens": 0}, 0), ({"group_hours": 0}, 0), ({"groups": "off"}, 0), ({"group_tokens": 30}, 2)],
)
def test_the_account_says_whether_they_are_stored(
    platform: FakeTelegram, valkey: object, config: dict[str, Any], kept: int
) -> None:
    add_telegram(platform, config=config)
    talk(1, "one")
    talk(2, "two")
    assert GroupMessage.objects.count() == kept


def test_only_the_newest_ones_within_the_tokens_and_hours_are_given(rig: EngineRig, platform: FakeTelegram) -> None:
    script = rig.agent(Reply(("fine",)))
    account = add_telegram(platform, config={"group_tokens": 60, "group_hours": 2})
    talk(1, "old")
    GroupMessage.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    for number in range(2, 6):
        talk(number, f"message {number} of several")
    telegram(group_update(9, "@komand_test_bot hi", **MENTION))
    settle(rig)
    asked = script.requests[-1].messages[-1].content
    assert [f"message {number}" in asked for number in range(2, 6)] == [False, False, True, True] and "old" not in asked
    [rule] = [rule for rule in list_rules() if rule.name == "messages of groups as context"]
    assert rule.count() == 1 and rule.prune(10) == 1 and GroupMessage.objects.count() == 4
    assert {*ChannelAccount.objects.values_list("pk")} == {(account.pk,)}


def test_a_chat_has_a_bounded_number(platform: FakeTelegram, valkey: object, monkeypatch: Any) -> None:
    monkeypatch.setattr(group_messages, "_MOST", 3)
    add_telegram(platform)
    for number in range(1, 7):
        talk(number, f"message {number}")
    assert [*GroupMessage.objects.order_by("id").values_list("text", flat=True)] == [
        "message 4",
        "message 5",
        "message 6",
    ]
    assert accounts.get_account("telegram", "main").config.get("groups") is None
