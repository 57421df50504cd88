"""Sending to platforms that throttle, fail, disconnect and are slow; and from processes that die."""

import asyncio
import threading
from datetime import timedelta
from functools import partial
from uuid import uuid4

import pytest
from django.utils import timezone

from agents_app.providers.kinds.scripted import Reply
from audit_app.kernel import liveness
from audit_app.kernel.database import in_db
from audit_app.kernel.liveness import Observer
from audit_app.models import AuditEntry
from sessions_app.channels import accounts, nudges
from sessions_app.channels.accounts import Adapters
from sessions_app.channels.outbound import outbox, scheduler, sender, sweeper, transitions
from sessions_app.channels.outbound.outbox import Destination
from sessions_app.channels.outbound.rate_limiter import RateLimiter
from sessions_app.models import ChannelAccount, Delivery, InboundMessage, Session
from sessions_app.platforms.adapters.webhook import Webhook
from sessions_app.platforms.messages import Chat, Outgoing, Target
from tests.fakes.http_server import Fault
from tests.fakes.telegram import BOT_ID, TOKEN, FakeTelegram, group_update, private_update
from tests.fakes.webhook_receiver import WebhookReceiver
from tests.support.channels import add_telegram, add_webhook, all_settled, settle, telegram, webhook
from tests.support.conditions import eventually
from tests.support.engine import EngineRig, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

SEND = "sendMessage"
QUIET = {"drafts": False}


def audited(action: str) -> list[dict[str, object]]:
    return list(AuditEntry.objects.filter(action=action).order_by("id").values_list("details", flat=True))


class DeadObserver(Observer):
    """A failure detector to which all other processes are dead."""

    def __init__(self) -> None:
        self.alive = liveness.start("runs")

    def dead(self, owners: object) -> set:
        return {owner for owner in owners if owner != self.alive}  # type: ignore[attr-defined]


def test_a_throttled_message_waits_as_long_as_the_platform_asks(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(("one",)), Reply(("two",)))
    add_telegram(platform, config=QUIET)
    platform.throttle(1, only=SEND)
    telegram(private_update(1, "a"))
    telegram(private_update(2, "b"))
    assert settle(rig, 2) == ["sent", "sent"]
    assert platform.chat(501) == ["one", "two"], "what follows waits too"
    sent = [call.at for call in platform.calls if call.method == SEND]
    first = Delivery.objects.order_by("id")[0]
    assert first.tries == 2 and first.sent_at and (first.sent_at - first.created_at).total_seconds() >= 1.0
    assert len(sent) == 2


@pytest.mark.parametrize("status", [500, 503])
def test_a_platform_that_fails_is_tried_again(rig: EngineRig, platform: FakeTelegram, status: int) -> None:
    rig.agent(Reply(("one",)))
    add_telegram(platform, config=QUIET)
    platform.faults.append(Fault("status", status, only=SEND))
    telegram(private_update(1, "a"))
    assert settle(rig) == ["sent"] and platform.chat(501) == ["one"]


def doubt_about(text: str) -> str:
    return f"⚠️ An earlier message may not have arrived. It begins: “{text}” If you do not see it, ask for it again."


def test_a_message_in_doubt_is_mentioned_before_the_next_that_arrives(rig: EngineRig, platform: FakeTelegram) -> None:
    """Once, but again if it is in doubt, too; and the message behind it comes once."""
    destination = Destination(add_telegram(platform, config=QUIET), Target(Chat("501")))
    elsewhere = Destination(destination.account, Target(Chat("502")))
    platform.faults += [Fault("accept_and_drop", only=SEND)]
    for number, text in enumerate(("one", "two", "three"), start=1):
        outbox.plan_notice(destination, text, text)
        assert settle(rig, number) == ["unknown", "sent", "sent"][:number]
        if number == 1:
            platform.faults += [Fault("accept_and_drop", only=SEND)]
    outbox.plan_notice(elsewhere, "x", "of another chat")
    settle(rig, 4)
    assert platform.chat(501) == ["one", doubt_about("one"), doubt_about("one"), "two", "three"]
    assert platform.chat(502) == ["of another chat"]


def test_a_notice_about_a_message_in_doubt_that_is_refused_holds_nothing_up(
    rig: EngineRig, platform: FakeTelegram
) -> None:
    destination = Destination(add_telegram(platform, config=QUIET), Target(Chat("501")))
    platform.faults += [Fault("accept_and_drop", only=SEND)]
    outbox.plan_notice(destination, "one", "one")
    settle(rig, 1)
    platform.faults += [Fault("status", 400, only=SEND)]
    outbox.plan_notice(destination, "two", "two")
    assert settle(rig, 2) == ["unknown", "sent"] and platform.chat(501) == ["one", "two"]


def test_a_message_in_doubt_is_marked_and_not_sent_again(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(("one",)), Reply(("two",)))
    add_telegram(platform, config=QUIET)
    platform.faults.append(Fault("accept_and_drop", only=SEND))
    telegram(private_update(1, "a"))
    telegram(private_update(2, "b"))
    assert settle(rig, 2) == ["unknown", "sent"]
    assert platform.chat(501) == ["one", doubt_about("one"), "two"]
    assert [entry["code"] for entry in audited("MessageFailed")] == ["unknown"] and len(audited("MessageSent")) == 1


def test_a_callback_in_doubt_goes_again_under_the_same_id(
    rig: EngineRig, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessions_app.platforms.adapters.webhook.RETRIES", (0.05, 0.05, 0.05))
    rig.agent(Reply(("one",)))
    add_webhook(receiver)
    receiver.faults.extend([Fault("accept_and_drop"), Fault("status", 500), Fault("drop")])
    webhook("a", "m1")
    assert settle(rig) == ["sent"]
    assert len(receiver.callbacks) == 2 and receiver.messages == ["one"]
    assert len({callback.id for callback in receiver.callbacks}) == 1
    assert all(callback.is_signed for callback in receiver.callbacks)


def test_a_callback_that_fails_each_time_is_given_up(
    rig: EngineRig, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessions_app.platforms.adapters.webhook.RETRIES", (0.02, 0.02))
    rig.agent(Reply(("one",)))
    add_webhook(receiver)
    receiver.faults.extend([Fault("status", 500)] * 3)
    webhook("a", "m1")
    assert settle(rig) == ["failed"] and Delivery.objects.get().tries == 3
    assert audited("MessageFailed")[0]["code"] == "failed" and not audited("MessageSent")


def test_a_refused_message_is_final_and_reported(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(("one",)))
    account = add_telegram(platform, config=QUIET)
    platform.faults.append(Fault("status", 403, only=SEND, description="Forbidden: bot was blocked by the user"))
    telegram(private_update(1, "a"))
    assert settle(rig) == ["failed"]
    assert "blocked by the user" in str(audited("MessageFailed")[0]["message"])
    until(lambda: "blocked" in ChannelAccount.objects.get(pk=account.pk).last_error)
    assert ChannelAccount.objects.get(pk=account.pk).is_enabled


@pytest.mark.parametrize("status", [301, 400, 404, 422])
def test_redirects_and_other_refusals_end_a_callback(rig: EngineRig, receiver: WebhookReceiver, status: int) -> None:
    rig.agent(Reply(("one",)))
    add_webhook(receiver)
    receiver.faults.append(Fault("status", status))
    webhook("a", "m1")
    assert settle(rig) == ["failed"] and not receiver.callbacks


def test_a_callback_that_is_gone_switches_the_account_off(rig: EngineRig, receiver: WebhookReceiver) -> None:
    rig.agent(Reply(("one",)))
    account = add_webhook(receiver)
    receiver.faults.append(Fault("status", 410))
    webhook("a", "m1")
    assert settle(rig) == ["failed"]
    until(lambda: not ChannelAccount.objects.get(pk=account.pk).is_enabled)
    assert AuditEntry.objects.filter(action="ChannelAccountDisabled").exists()


def test_a_callback_never_goes_to_an_address_of_our_own_network(rig: EngineRig, receiver: WebhookReceiver) -> None:
    rig.agent(Reply(("one",)))
    account = add_webhook(receiver)
    ChannelAccount.objects.filter(pk=account.pk).update(config={"callback_url": "http://127.0.0.1:1/"})
    webhook("a", "m1")
    until(lambda: not InboundMessage.objects.exists() or all_settled())
    assert not receiver.callbacks


def test_markup_that_the_platform_cannot_read_goes_as_plain_text(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(("**bold** & more",)))
    add_telegram(platform, config=QUIET)
    platform.faults.append(Fault("status", 400, only=SEND, description="Bad Request: can't parse entities: x"))
    telegram(private_update(1, "a"))
    assert settle(rig) == ["sent"] and platform.chat(501) == ["bold & more"]


def test_a_part_that_fails_takes_the_later_parts_with_it(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(("word " * 2000,)))
    add_telegram(platform, config=QUIET)
    platform.faults.append(Fault("status", 400, only=SEND, description="Bad Request"))
    telegram(private_update(1, "a"))
    assert settle(rig, 3) == ["failed"] * 3
    assert len(audited("MessageFailed")) == 1 and platform.chat(501) == []


def test_a_notice_that_fails_takes_no_other_notice_with_it(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.stop()
    destination = Destination(add_telegram(platform, config=QUIET), Target(Chat("501")))
    for key in ("n1", "n2"):
        outbox.plan_notice(destination, key, "word " * 2000)
    first, other = (Delivery.objects.filter(dedupe_key__startswith=key).order_by("part") for key in ("n1", "n2"))
    assert transitions.give_up(first[0], None, "failed", "refused")
    assert {row.status for row in first} == {"failed"} and {row.status for row in other} == {"pending"}


def test_a_very_long_answer_ends_with_a_file(rig: EngineRig, platform: FakeTelegram) -> None:
    text = "\n\n".join("word " * 150 for _ in range(40))
    rig.agent(Reply((text,)))
    add_telegram(platform, config=QUIET)
    telegram(private_update(1, "a"))
    assert settle(rig, 3) == ["sent"] * 3
    assert platform.methods("sendChatAction") == [SEND, SEND, "sendDocument"]
    assert text[-500:].strip() in platform.calls[-1].fields["multipart"]


def test_what_a_dead_process_was_sending_is_in_doubt(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.stop()
    account = add_telegram(platform, config=QUIET)
    outbox.plan_notice(Destination(account, Target(Chat("501"))), "n1", "hello")
    row = Delivery.objects.get()
    assert transitions.claim([row.pk], uuid4()) == {row.pk}
    assert transitions.claim([row.pk], uuid4()) == set(), "one sender at a time"
    sweeper.sweep(DeadObserver())
    row.refresh_from_db()
    assert (row.status, row.owner) == ("unknown", None)


def test_a_callback_of_a_dead_process_goes_again(rig: EngineRig, receiver: WebhookReceiver) -> None:
    account = add_webhook(receiver)
    outbox.plan_notice(Destination(account, Target(Chat("u-1"))), "n1", "hello")
    assert settle(rig) == ["sent"]
    Delivery.objects.update(status="sending", owner=uuid4())
    sweeper.sweep(DeadObserver())
    assert settle(rig) == ["sent"] and len(receiver.callbacks) == 2 and receiver.messages == ["hello"]


def test_what_was_not_sent_in_time_expires(rig: EngineRig, platform: FakeTelegram) -> None:
    account = add_telegram(platform, config=QUIET)
    rig.agent(Reply(("one",)))
    ChannelAccount.objects.filter(pk=account.pk).update(is_enabled=True)
    platform.throttle(3600, only=SEND)
    telegram(private_update(1, "a"))
    assert settle(rig) == ["expired"]
    assert audited("MessageFailed")[0]["code"] == "expired"


def test_an_account_that_is_off_keeps_what_waits_until_it_expires(rig: EngineRig, platform: FakeTelegram) -> None:
    account = add_telegram(platform, config=QUIET)
    ChannelAccount.objects.filter(pk=account.pk).update(is_enabled=False)
    outbox.plan_notice(Destination(account, Target(Chat("501"))), "n1", "hello")
    assert transitions.list_due(10) == []
    Delivery.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    sweeper.sweep(DeadObserver())
    assert Delivery.objects.get().status == "expired" and platform.chat(501) == []


def test_an_operator_may_send_again_what_was_given_up(rig: EngineRig, platform: FakeTelegram) -> None:
    account = add_telegram(platform, config=QUIET)
    platform.faults.append(Fault("accept_and_drop", only=SEND))
    outbox.plan_notice(Destination(account, Target(Chat("501"))), "n1", "hello")
    assert settle(rig) == ["unknown"]
    assert transitions.send_again(list(Delivery.objects.all()), 60.0) == 1
    assert settle(rig) == ["sent"] and platform.chat(501) == ["hello", "hello"]
    assert transitions.send_again(list(Delivery.objects.all()), 60.0) == 0


def test_machines_that_answer_each_other_are_stopped(
    rig: EngineRig, platform: FakeTelegram, most_in_a_minute: int
) -> None:
    account = add_telegram(platform, config=QUIET)
    for number in range(most_in_a_minute + 3):
        outbox.plan_notice(Destination(account, Target(Chat("501"))), f"n{number}", f"text {number}")
    statuses = settle(rig, most_in_a_minute + 3)
    assert statuses == ["sent"] * most_in_a_minute + ["failed"] * 3
    assert "loop" in Delivery.objects.order_by("-id")[0].error


def test_a_lost_ring_costs_a_second(rig: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch) -> None:
    account = add_telegram(platform, config=QUIET)
    monkeypatch.setattr(nudges.deliveries, "send_now", lambda: None)
    outbox.plan_notice(Destination(account, Target(Chat("501"))), "n1", "hello")
    assert settle(rig) == ["sent"]


def test_a_doubt_ends_when_the_sender_turns_out_to_live(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.stop()
    account, owner = add_telegram(platform, config=QUIET), uuid4()
    outbox.plan_notice(Destination(account, Target(Chat("501"))), "n1", "hello")
    [row] = transitions.list_due(1)
    transitions.claim([row.pk], owner)
    sweeper.sweep(DeadObserver())
    assert Delivery.objects.get().status == "unknown"
    assert transitions.mark_sent(row, owner, "77")
    assert Delivery.objects.get().status == "sent"


def test_an_answer_that_cannot_go_into_its_preview_is_never_sent_twice(rig: EngineRig, platform: FakeTelegram) -> None:
    account = add_telegram(platform, config=QUIET)
    platform.faults.append(Fault("accept_and_drop", only=SEND))
    outbox.plan_notice(Destination(account, Target(Chat("-7", "group"))), "n1", "hello")
    Delivery.objects.update(provider_message_id="404")  # a preview that somebody has deleted
    assert settle(rig) == ["unknown"] and platform.chat(-7) == ["hello"]


def test_a_group_that_has_moved_gets_its_answer_under_its_new_id(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(("one",)), Reply(("two",)))
    account = add_telegram(platform, config=QUIET, access="allow_list", allowed_senders=["-100777", "7"])
    platform.moved[-100777] = -200
    telegram(group_update(1, "a", reply_to_message={"message_id": 1, "from": {"id": BOT_ID}}))
    assert settle(rig) == ["sent"] and platform.chat(-200) == ["one"]
    assert Session.objects.get().key == "Telegram:main:-200"
    assert ChannelAccount.objects.get(pk=account.pk).allowed_senders == ["-200", "7"]
    telegram(group_update(2, "b", chat=-200, reply_to_message={"message_id": 1, "from": {"id": BOT_ID}}))
    assert settle(rig, 2) == ["sent"] * 2 and platform.chat(-200) == ["one", "two"]


def test_an_account_that_is_slow_keeps_no_other_waiting(
    rig: EngineRig, platform: FakeTelegram, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "_MOST_AT_ONCE", 4)
    monkeypatch.setattr(scheduler, "_MOST_OF_ACCOUNT", 2)
    send, may_answer = Webhook.send, threading.Event()

    async def send_slowly(self: Webhook, message: Outgoing) -> str:
        await asyncio.to_thread(may_answer.wait, 60)
        return await send(self, message)

    monkeypatch.setattr(Webhook, "send", send_slowly)
    slow, quick = add_webhook(receiver), add_telegram(platform, config=QUIET)
    for number in range(6):
        outbox.plan_notice(Destination(slow, Target(Chat(f"u-{number}"))), f"s{number}", "slow")
    outbox.plan_notice(Destination(quick, Target(Chat("501"))), "q", "quick")
    until(lambda: platform.chat(501) == ["quick"])
    assert Delivery.objects.filter(account=slow, status="sending").count() == 2
    may_answer.set()
    assert settle(rig, 7) == ["sent"] * 7


def test_what_waits_for_an_account_does_not_hide_what_others_send(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.stop()
    full = add_telegram(platform, config=QUIET)
    other, _ = accounts.add_account("telegram", "other", config={"api_url": platform.url}, secrets={"bot_token": TOKEN})
    for number in range(5):
        outbox.plan_notice(Destination(full, Target(Chat(str(number)))), f"f{number}", "x")
    outbox.plan_notice(Destination(other, Target(Chat("501"))), "o", "y")
    assert [row.account for row in transitions.list_due(3)] == [full] * 3
    assert [row.account for row in transitions.list_due(3, {full.pk})] == [other]


def test_bots_that_answer_each_other_are_stopped_too(
    rig: EngineRig, platform: FakeTelegram, most_in_a_minute: int
) -> None:
    add_telegram(platform, config={**QUIET, "known_bots": [5]})
    rig.agent(Reply(("beep",)), queue_limit=50)
    other = {"from": {"id": 5, "is_bot": True, "first_name": "Other"}, "chat": {"id": 5, "type": "private"}}
    for number in range(most_in_a_minute + 3):
        assert telegram(private_update(number, "beep", **other)) == 200
    assert settle(rig, most_in_a_minute + 3) == ["sent"] * most_in_a_minute + ["failed"] * 3


def test_what_answers_a_press_waits_for_no_message(rig: EngineRig, platform: FakeTelegram) -> None:
    account = add_telegram(platform, config={**QUIET, "chat_seconds": 60})
    for number in range(2):
        outbox.plan_notice(Destination(account, Target(Chat("501"))), f"n{number}", "message")
    outbox.plan_notice(Destination(account, Target(Chat("501"), press_id="9")), "p", "done")
    until(lambda: platform.toasts == {"9": "done"} and platform.chat(501) == ["message"])
    assert Delivery.objects.get(status="pending").text == "message"


def test_only_the_first_part_shows_what_it_answers(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(("word " * 2000,)))
    add_telegram(platform, config=QUIET)
    telegram(group_update(8, "a", reply_to_message={"message_id": 1, "from": {"id": BOT_ID}}))
    assert settle(rig, 3) == ["sent"] * 3
    sent = [call.fields for call in platform.calls if call.method == SEND]
    assert [part.get("reply_parameters", {}).get("message_id") for part in sent] == [8, None, None]


def test_the_account_shows_its_last_sent_time(rig: EngineRig, platform: FakeTelegram) -> None:
    account = add_telegram(platform, config=QUIET)
    outbox.plan_notice(Destination(account, Target(Chat("501"))), "n1", "hello")
    assert settle(rig) == ["sent"]
    until(lambda: ChannelAccount.objects.get().last_sent_at is not None)


async def test_two_processes_send_each_message_once_and_in_order(valkey: object, platform: FakeTelegram) -> None:
    account = await in_db(partial(add_telegram, platform, config=QUIET))

    def plan() -> None:
        for number in range(4):
            for chat in range(10):
                target = Target(Chat(str(chat + 1)))
                outbox.plan_notice(Destination(account, target), f"n{number}-{chat}", f"text {number}")

    await in_db(plan)
    several = [Adapters(), Adapters()]
    running = [asyncio.create_task(sender.Sender(uuid4(), adapters, RateLimiter()).run()) for adapters in several]
    try:
        await eventually(lambda: not Delivery.objects.exclude(status="sent").exists(), 60)
    finally:
        for task in running:
            task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    for adapters in several:
        await adapters.aclose()
    for chat in range(10):
        assert platform.chat(chat + 1) == [f"text {number}" for number in range(4)]
    assert platform.methods() == [SEND] * 40
