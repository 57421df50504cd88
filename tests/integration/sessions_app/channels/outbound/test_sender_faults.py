"""Faults of sending: writes that the database refuses, processes that end or hang at a bad moment, failing adapters."""

import asyncio
import threading
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.conf import settings
from django.db import InternalError, OperationalError, transaction
from django.utils import timezone
from psycopg.errors import ReadOnlySqlTransaction

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from agents_app.runs import worker
from audit_app.kernel.database import in_db
from audit_app.kernel.liveness import Observer
from audit_app.models import AuditEntry
from sessions_app.channels.accounts import Adapters
from sessions_app.channels.outbound import outbox, preview, retry_policy, sender, sweeper, transitions
from sessions_app.channels.outbound.outbox import Destination
from sessions_app.channels.outbound.rate_limiter import RateLimiter
from sessions_app.channels.outbound.sender import Sender
from sessions_app.models import ChannelAccount, Delivery, InboundMessage, Session
from sessions_app.platforms.adapters.telegram.adapter import Telegram
from sessions_app.platforms.adapters.webhook import Webhook
from sessions_app.platforms.base import SendCertainty, SendError
from sessions_app.platforms.messages import Chat, Target
from tests.fakes.http_server import Fault
from tests.fakes.telegram import BOT_ID, FakeTelegram, group_update, press_update, private_update
from tests.fakes.webhook_receiver import WebhookReceiver
from tests.integration.sessions_app.channels.outbound.test_sender import doubt_about
from tests.support.channels import add_telegram, add_webhook, settle, telegram, webhook
from tests.support.engine import EngineRig, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

QUIET = {"drafts": False}
REPLY = {"reply_to_message": {"message_id": 1, "from": {"id": BOT_ID}}}
GROUP = -100777


def plan(account: ChannelAccount, *names: str, chat: str = "501") -> None:
    for name in names:
        outbox.plan_notice(Destination(account, Target(Chat(chat))), name, name)


class Watching(Observer):
    """A failure detector to which all processes are dead, or none is."""

    def __init__(self, *, dead: bool) -> None:
        self.are_dead = dead

    def dead(self, owners: Iterable[UUID]) -> set[UUID]:
        return {*owners} if self.are_dead else set()


def failing(real: Any, *errors: Exception) -> Any:
    """Return the function, preceded by calls that raise these errors."""
    left = list(errors)

    def called(*args: Any) -> Any:
        if left:
            raise left.pop(0)
        return real(*args)

    return called


def test_a_preview_that_ends_while_the_database_is_away_holds_nothing_back(
    rig: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.agent(Reply(("One ", "and two."), delay_seconds=0.2))
    add_telegram(platform, config={"chat_seconds": 0.1})
    monkeypatch.setattr(transitions, "release_draft", failing(transitions.release_draft, OperationalError("away")))
    telegram(group_update(1, "a", **REPLY))
    assert settle(rig, 1) == ["sent"] and platform.chat(GROUP) == ["One and two."]


def test_a_preview_whose_id_could_not_be_noted_becomes_the_answer_all_the_same(
    rig: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.agent(Reply(("One ", "and two."), delay_seconds=0.2))
    add_telegram(platform, config={"chat_seconds": 0.1})
    monkeypatch.setattr(transitions, "note_draft", failing(transitions.note_draft, OperationalError("away")))
    telegram(group_update(1, "a", **REPLY))
    assert settle(rig, 1) == ["sent"] and platform.chat(GROUP) == ["One and two."]


def test_a_preview_that_is_begun_too_slowly_holds_nothing_back(
    rig: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, opened = outbox.open_draft, threading.Event()

    def open_late(*args: Any) -> Any:
        found = real(*args)
        opened.wait(0.5)  # longer than a call may take
        return found

    monkeypatch.setattr(preview, "_CALL_SECONDS", 0.1)
    monkeypatch.setattr(outbox, "open_draft", open_late)
    rig.agent(Reply(("One ", "and two."), delay_seconds=0.2))
    add_telegram(platform, config={"chat_seconds": 0.1})
    telegram(group_update(1, "a", **REPLY))
    assert settle(rig, 1) == ["sent"] and platform.chat(GROUP) == ["One and two."]


async def test_what_is_claimed_as_the_process_ends_is_left_to_others(
    valkey: object, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = await in_db(partial(add_telegram, platform, config=QUIET))
    await in_db(plan, account, "hello")
    real, claimed, ended = transitions.claim, asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def claim(ids: Any, owner: UUID) -> set[int]:
        found = real(ids, owner)
        loop.call_soon_threadsafe(claimed.set)
        ended.wait(30)
        return found

    monkeypatch.setattr(transitions, "claim", claim)
    adapters = Adapters()
    running = asyncio.create_task(Sender(uuid4(), adapters, RateLimiter()).run())
    await claimed.wait()
    running.cancel()
    loop.call_soon(ended.set)
    await asyncio.gather(running, return_exceptions=True)
    await adapters.aclose()
    row = await in_db(Delivery.objects.get)
    assert (row.status, row.owner, row.tries) == ("pending", None, 0) and platform.chat(501) == []


def test_a_platform_that_is_slow_has_the_time_of_the_drain(
    rig: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "KOMAND_DRAIN_SECONDS", 60)
    monkeypatch.setattr(worker, "_CHORES_END_SECONDS", 0)
    account = add_telegram(platform, config=QUIET)
    platform.faults.append(Fault("slow", seconds=0.5))
    plan(account, "hello")
    until(platform.methods)
    rig.stop()
    assert Delivery.objects.get().status == "sent"


def test_a_process_that_stood_still_does_not_send_what_another_took_over(
    rig: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, real = add_telegram(platform, config=QUIET), Telegram.edit

    async def edit(self: Telegram, message: Any, message_id: str) -> None:
        monkeypatch.setattr(Telegram, "edit", real)
        # What the reaper does while we stand still.
        await in_db(Delivery.objects.filter(status="sending").update, status="pending", owner=None)
        raise SendError("the message is gone", SendCertainty.REFUSED)

    monkeypatch.setattr(Telegram, "edit", edit)
    plan(account, "hello")
    Delivery.objects.update(provider_message_id="404")
    assert settle(rig, 1) == ["sent"] and platform.chat(501) == ["hello"]


def test_a_database_that_only_reads_for_a_while_keeps_no_message(
    rig: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = add_telegram(platform, config=QUIET)
    error = InternalError("cannot execute UPDATE in a read-only transaction")
    error.__cause__ = ReadOnlySqlTransaction()
    monkeypatch.setattr(transitions, "mark_sent", failing(transitions.mark_sent, error))
    plan(account, "one", "two")
    assert settle(rig, 2) == ["sent", "sent"] and platform.chat(501) == ["one", "two"]


def test_a_message_whose_outcome_cannot_be_stored_is_unknown_and_holds_up_no_other(
    rig: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = add_telegram(platform, config=QUIET)
    monkeypatch.setattr(transitions, "mark_sent", failing(transitions.mark_sent, KeyError("x")))
    plan(account, "one", "two")
    assert settle(rig, 2) == ["unknown", "sent"]
    assert platform.chat(501) == ["one", doubt_about("one"), "two"]


def test_an_adapter_that_breaks_keeps_no_other_channel_waiting(
    rig: EngineRig, platform: FakeTelegram, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, well = add_webhook(receiver), add_telegram(platform, config=QUIET)
    plan(broken, "one", chat="u-1")

    def capabilities(self: Webhook, chat: Chat) -> Any:
        raise KeyError("x")

    monkeypatch.setattr(Webhook, "capabilities", capabilities)
    plan(well, "two")
    until(lambda: platform.chat(501) == ["two"] and "KeyError" in ChannelAccount.objects.get(pk=broken.pk).last_error)
    row = Delivery.objects.get(account=broken)
    assert (row.status, row.tries) == ("pending", 0) and row.ready_at > timezone.now() and not receiver.callbacks


def test_what_waits_for_an_account_that_cannot_be_used_goes_out_when_it_can(
    rig: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "_UNUSABLE_SECONDS", 0.05)
    account = add_telegram(platform, config=QUIET)
    rows = ChannelAccount.objects.filter(pk=account.pk)
    rows.update(secrets_sealed="sealed with a key that is gone", updated_at=timezone.now())
    plan(ChannelAccount.objects.get(), "hello")
    until(lambda: "cannot be opened" in ChannelAccount.objects.get().last_error)
    rows.update(secrets_sealed=account.secrets_sealed, updated_at=timezone.now())
    assert settle(rig, 1) == ["sent"] and platform.chat(501) == ["hello"]


def test_answers_to_people_who_wrote_long_ago_are_no_loop(
    rig: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch, most_in_a_minute: int
) -> None:
    rig.agent(Reply(("fine",)), queue_limit=50)
    add_telegram(platform, config=QUIET)
    monkeypatch.setattr(sender, "LOOP_SECONDS", 0.0)  # all that came, came before that
    count = most_in_a_minute + 3
    for number in range(count):
        assert telegram(private_update(number, "hi")) == 200
    assert settle(rig, count) == ["sent"] * count
    assert Run.objects.count() == InboundMessage.objects.count() == count
    until(lambda: len(platform.chat(501)) == count)


def test_one_message_that_is_tried_often_is_no_loop(
    rig: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch, most_in_a_minute: int
) -> None:
    account = add_telegram(platform, config=QUIET)
    monkeypatch.setattr(retry_policy, "_pause", lambda *args: 0.01)
    platform.faults.extend([Fault("status", 503, only="sendMessage")] * (most_in_a_minute + 2))
    plan(account, "hello")
    assert settle(rig, 1) == ["sent"] and platform.chat(501) == ["hello"]


def test_waiting_for_the_database_is_not_waiting_for_the_platform(
    rig: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, capabilities = add_telegram(platform, config=QUIET), Telegram.capabilities

    async def edit(self: Telegram, message: Any, message_id: str) -> None:
        raise SendError("the message is gone", SendCertainty.REFUSED)

    async def send(self: Telegram, message: Any) -> str:
        return "7"

    monkeypatch.setattr(Telegram, "edit", edit)
    monkeypatch.setattr(Telegram, "send", send)
    monkeypatch.setattr(Telegram, "capabilities", lambda *args: replace(capabilities(*args), send_seconds=-4.8))
    errors = [OperationalError("away")] * 2
    monkeypatch.setattr(transitions, "forget_shown", failing(transitions.forget_shown, *errors))
    plan(account, "hello")
    Delivery.objects.update(provider_message_id="404")
    assert settle(rig, 1) == ["sent"]


def test_a_preview_that_is_begun_just_as_its_run_ends_becomes_the_answer(
    valkey: object, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    EngineRig(monkeypatch).agent(Reply(("fine",)))
    add_telegram(platform)
    telegram(group_update(1, "a", **REPLY))
    run, session, owner, render = Run.objects.get(), Session.objects.get(), uuid4(), outbox._render

    def render_late(markdown: str, destination: Destination, shown: int) -> Any:
        assert outbox.open_draft(destination, session, run.pk, owner)
        return render(markdown, destination, shown)

    monkeypatch.setattr(outbox, "_render", render_late)
    for _ in range(2):
        with transaction.atomic():  # as at the end of a run
            assert outbox.plan_answer(session, run.pk, [("fine", ())]) == 1
    row = Delivery.objects.get()
    assert (row.status, row.text, row.owner) == ("pending", "fine", owner)


def test_an_answer_that_its_adapter_cannot_write_goes_out_as_it_is(
    rig: EngineRig, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def render(self: Webhook, markdown: str, chat: Chat) -> Any:
        raise KeyError("x")

    rig.agent(Reply(("**fine**",)))
    add_webhook(receiver)
    monkeypatch.setattr(Webhook, "render", render)
    webhook("hi", "m1")
    assert settle(rig, 1) == ["sent"] and receiver.messages == ["**fine**"]


def test_an_interrupted_send_is_reported_though_its_adapter_fails(
    valkey: object, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def capabilities(self: Webhook, chat: Chat) -> Any:
        raise KeyError("x")

    plan(add_webhook(receiver), "one")
    Delivery.objects.update(status="sending", owner=uuid4())
    monkeypatch.setattr(Webhook, "capabilities", capabilities)
    sweeper.sweep(Watching(dead=True))
    assert Delivery.objects.get().status == "unknown"


def test_a_program_may_write_often(rig: EngineRig, receiver: WebhookReceiver, most_in_a_minute: int) -> None:
    rig.agent(Reply(("fine",)), queue_limit=50)
    add_webhook(receiver)
    count = most_in_a_minute + 3
    for number in range(count):
        assert webhook("hi", f"m{number}")[0] == 202
    assert settle(rig, count) == ["sent"] * count


def test_who_presses_a_button_is_a_person(valkey: object, platform: FakeTelegram) -> None:
    account = add_telegram(platform)
    telegram(press_update(1, "something"))
    assert transitions.is_for_person(Delivery.objects.get(account=account), 60.0)


def test_a_preview_that_came_over_an_answer_on_its_way_is_written_over(rig: EngineRig, platform: FakeTelegram) -> None:
    account, stopped = add_telegram(platform, config=QUIET), uuid4()
    rig.stop()
    plan(account, "hello")
    key = Delivery.objects.get().dedupe_key
    Delivery.objects.update(status="sending", owner=uuid4(), provider_message_id="5")
    assert not transitions.release_draft(key, stopped, "5"), "whoever sends it may have been first"
    Delivery.objects.update(status="sent", owner=None)
    assert transitions.release_draft(key, stopped, "5") and Delivery.objects.get().status == "pending"


def test_an_answer_that_cannot_be_written_once_more_was_sent_all_the_same(
    rig: EngineRig, platform: FakeTelegram
) -> None:
    rig.agent(Reply(("One ", "and two."), delay_seconds=0.2))
    add_telegram(platform, config={"chat_seconds": 0.1})
    telegram(group_update(1, "a", **REPLY))
    assert settle(rig, 1) == ["sent"]
    row = Delivery.objects.get()
    platform.faults.append(Fault("status", 403, only="editMessageText"))
    platform.faults.append(Fault("status", 403, only="sendMessage"))
    transitions.release_draft(row.dedupe_key, uuid4(), row.provider_message_id)
    assert settle(rig, 1) == ["sent"] and not platform.faults
    assert not AuditEntry.objects.filter(action="MessageFailed").exists()


def test_a_preview_that_does_not_end_keeps_no_answer_for_ever(valkey: object, platform: FakeTelegram) -> None:
    account, living = add_telegram(platform, config=QUIET), uuid4()
    plan(account, "hello")
    Delivery.objects.update(owner=living)
    sweeper.sweep(Watching(dead=False))
    assert Delivery.objects.get().owner == living
    Delivery.objects.update(ready_at=timezone.now() - timedelta(minutes=1))
    sweeper.sweep(Watching(dead=False))
    assert Delivery.objects.get().owner is None
