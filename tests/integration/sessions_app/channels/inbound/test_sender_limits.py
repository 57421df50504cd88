"""Bursts of short messages, the pace of one sender, refusals, and the rules of groups."""

import asyncio
import json
from typing import Any

import pytest
from django.db.models.functions import Now

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from agents_app.runs.reaper import Reaper
from audit_app.models import AuditEntry
from sessions_app.channels import account_state, open_access
from sessions_app.channels.inbound import dispatch
from sessions_app.channels.inbound.webhook import known_accounts
from sessions_app.identity.rate_limits import TOO_FAST
from sessions_app.models import ChannelAccount, Delivery, InboundMessage, Turn
from sessions_app.platforms.adapters.email.adapter import Email
from tests.fakes.telegram import FakeTelegram, group_update, private_update
from tests.fakes.webhook_receiver import WebhookReceiver
from tests.support.channels import TELEGRAM_SECRET, add_telegram, add_webhook, request, settle, telegram, webhook
from tests.support.engine import EngineRig, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

MENTION = {"entities": [{"type": "mention", "offset": 0, "length": 16}]}
REPLY = {"reply_to_message": {"message_id": 1, "from": {"id": 123456789}}}
WINDOW_MS = 60_000  # within which any machine stores a few messages


def end_window(rig: EngineRig) -> None:
    """Let the runs begin that wait for further messages."""
    waiting = Run.objects.filter(status="queued")
    waiting.update(ready_at=Now())
    assert rig.engine
    for run_id in waiting.values_list("pk", flat=True):
        rig.engine.nudge(run_id)


def test_short_messages_of_a_moment_are_one_turn(rig: EngineRig, platform: FakeTelegram, settings: Any) -> None:
    settings.KOMAND_BURST_MS = WINDOW_MS
    script = rig.agent(Reply(("fine",)))
    add_telegram(platform)
    for number, text in enumerate(("hi", "one more thing", "that is all"), start=1):
        telegram(private_update(number, text))
    telegram(private_update(2, "one more thing"))
    end_window(rig)
    assert settle(rig) == ["sent"] and Run.objects.count() == 1
    turn = Turn.objects.get(role="user")
    assert turn.content == "hi\n\none more thing\n\nthat is all"
    assert script.requests[0].messages[-1].content == turn.content
    joined = InboundMessage.objects.filter(turn=turn).order_by("id")
    assert [row.metadata.get("burstMs") for row in joined] == [None, WINDOW_MS, WINDOW_MS]
    telegram(private_update(4, "and now?"))
    end_window(rig)
    until(lambda: Run.objects.filter(status="completed").count() == 2)


def test_a_run_waits_no_longer_than_the_window(
    rig: EngineRig, platform: FakeTelegram, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins by its nudge: the sweeper, which would find it later, is disabled."""
    monkeypatch.setattr(Reaper, "sweep", lambda self: None)
    settings.KOMAND_BURST_MS = 200
    rig.agent(Reply(("fine",)))
    add_telegram(platform)
    telegram(private_update(1, "hi"))
    run = Run.objects.get()
    assert run.ready_at and run.ready_at > run.created_at
    until(lambda: Run.objects.get().status == "completed")


def test_messages_of_others_and_long_ones_are_turns_of_their_own(
    rig: EngineRig, platform: FakeTelegram, settings: Any
) -> None:
    settings.KOMAND_BURST_MS = WINDOW_MS
    rig.agent(Reply(("fine",)))
    add_telegram(platform)
    telegram(group_update(1, "@komand_test_bot hi", **MENTION))
    telegram(group_update(2, "@komand_test_bot me too", user=502, **MENTION))
    telegram(group_update(3, "@komand_test_bot " + "long " * 200, user=502, **MENTION))
    assert Run.objects.count() == 3


def test_what_programs_send_is_not_joined(rig: EngineRig, receiver: WebhookReceiver, settings: Any) -> None:
    settings.KOMAND_BURST_MS = WINDOW_MS
    rig.agent(Reply(("fine",)))
    add_webhook(receiver)
    webhook("one", "m1")
    webhook("two", "m2")
    assert Run.objects.count() == 2


def test_a_sender_who_writes_too_fast_gets_one_notice(rig: EngineRig, platform: FakeTelegram, settings: Any) -> None:
    settings.KOMAND_SENDER_LIMIT = 2
    rig.agent(Reply(("fine",)))
    account = add_telegram(platform)
    for number in range(1, 6):
        telegram(private_update(number, f"message {number}"))
    telegram(private_update(6, "of another one", user=502))
    settle(rig, 4)
    assert Run.objects.count() == 3
    [notice] = Delivery.objects.filter(kind="notice")
    assert "too fast" in notice.text and notice.target["chat"] == "501"
    assert InboundMessage.objects.filter(reason=TOO_FAST).count() == account_state.count_refused(account) == 3
    [entry] = AuditEntry.objects.filter(action="MessageRefused")
    assert entry.details == {"account": "telegram/main", "sender_id": "501", "reason": "too_fast"}


def test_repetitions_by_the_platform_do_not_count(rig: EngineRig, platform: FakeTelegram, settings: Any) -> None:
    settings.KOMAND_SENDER_LIMIT = 2
    script = rig.agent(Reply(("fine",)))
    add_telegram(platform)
    body = json.dumps(private_update(1, "first")).encode()
    headers = {"content-type": "application/json", "x-telegram-bot-api-secret-token": TELEGRAM_SECRET}

    async def repeat() -> set[int]:
        return {(await request("/channels/telegram/main/webhook", body, headers))[0] for _ in range(100)}

    known_accounts.forget()  # those of other tests
    assert asyncio.run(repeat()) == {200}
    telegram(private_update(2, "second"))
    assert settle(rig, 2) == ["sent", "sent"] and script.requests[-1].messages[-1].content == "second"
    telegram(private_update(3, "third"))
    assert [row.reason for row in InboundMessage.objects.order_by("id")] == ["", "", TOO_FAST]


def test_each_message_of_a_burst_counts_once(rig: EngineRig, platform: FakeTelegram, settings: Any) -> None:
    settings.KOMAND_BURST_MS, settings.KOMAND_SENDER_LIMIT = WINDOW_MS, 3
    rig.agent(Reply(("fine",)))
    add_telegram(platform)
    for number in (1, 2, 2, 3, 1):
        telegram(private_update(number, f"message {number}"))
    assert Turn.objects.get(role="user").content == "message 1\n\nmessage 2\n\nmessage 3"
    telegram(private_update(4, "message 4"))
    assert InboundMessage.objects.get(reason=TOO_FAST).text == "message 4"


def test_a_program_that_writes_too_fast_has_to_wait(rig: EngineRig, receiver: WebhookReceiver, settings: Any) -> None:
    settings.KOMAND_SENDER_LIMIT = 1
    rig.agent(Reply(("fine",)))
    add_webhook(receiver)
    assert [webhook("one", "m1")[0], webhook("two", "m2")[0], webhook("one", "m1")[0]] == [202, 429, 202]


def test_a_notice_that_is_answered_by_a_program_ends(valkey: object, platform: FakeTelegram, monkeypatch: Any) -> None:
    """A program that answers each of our notices, more slowly than the other limits count."""
    monkeypatch.setattr(dispatch, "_MOST_NOTICES", 3)
    add_telegram(platform)
    for number in range(1, 6):
        telegram(private_update(number, "x" * 10_001))
    for number in range(6, 11):
        telegram(private_update(number, "", dice={"emoji": "🎲", "value": 3}))
    assert list(InboundMessage.objects.order_by("id").values_list("reason", flat=True)) == [
        *["text_too_long"] * 5,
        *["no_text"] * 5,
    ]
    assert [Delivery.objects.filter(text__contains=text).count() for text in ("10,000", "I can read")] == [3, 3]


def test_an_account_has_the_limit_of_its_channel(db: None) -> None:
    account = ChannelAccount(channel="email", access="paired")
    assert open_access.messages_per_day(account) == Email.messages_per_day == 100
    account.access = "open"
    assert open_access.messages_per_day(account) == 50
    account.messages_per_day = 500
    assert open_access.messages_per_day(account) == 500
    assert open_access.messages_per_day(ChannelAccount(channel="telegram", access="paired")) is None


def test_refusals_are_audited_once_an_hour(valkey: object, platform: FakeTelegram) -> None:
    add_telegram(platform, access="allow_list", allowed_senders=["502"])
    for number in range(3):
        telegram(private_update(number + 1, "let me in"))
    assert AuditEntry.objects.filter(action="MessageRefused").count() == 1
    assert account_state.count_refused(ChannelAccount.objects.get()) == 3


@pytest.mark.parametrize(
    ("groups", "answered"),
    [("mention", {2, 4}), ("reply", {2, 3, 4}), ("all", {1, 2, 3, 4}), ("off", set()), ("", {2, 3, 4})],
)
def test_the_rule_of_groups(valkey: object, platform: FakeTelegram, groups: str, answered: set[int]) -> None:
    add_telegram(platform, config={"groups": groups} if groups else {})
    telegram(group_update(1, "not for us"))
    telegram(group_update(2, "@komand_test_bot hi", **MENTION))
    telegram(group_update(3, "a reply", **REPLY))
    telegram(group_update(4, "/status"))
    found = {int(row.message_id.rpartition(":")[2]) for row in InboundMessage.objects.all()}
    assert found == answered
    telegram(private_update(9, "/status"))
    assert InboundMessage.objects.filter(chat_id="501").count() == 1, "the rule is for groups alone"
