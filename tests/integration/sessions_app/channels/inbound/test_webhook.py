"""The webhook of all channels: verification, refusals and deduplication."""

import asyncio
import json
import time
from datetime import UTC, datetime

import pytest
from django.db import DatabaseError, DataError

from agents_app import services as runs
from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from audit_app.kernel.database import in_db
from sessions_app.channels import accounts
from sessions_app.channels.inbound import pairing_codes
from sessions_app.channels.inbound import webhook as webhook_module
from sessions_app.channels.outbound.outbox import draft_id_of
from sessions_app.models import ChannelAccount, Checkpoint, Delivery, InboundKey, InboundMessage, Session, Turn
from tests.fakes.telegram import FakeTelegram, group_update, private_update
from tests.fakes.webhook_receiver import SECRET, WebhookReceiver, signed_headers
from tests.support.channels import TELEGRAM_SECRET, add_telegram, add_webhook, post, request, telegram, webhook
from tests.support.engine import EngineRig

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

PATH = "/channels/webhook/crm/webhook"
OTHER_SECRET = "whsec_" + "B" * 40


@pytest.fixture(autouse=True)
def _agent(idle: EngineRig) -> None:
    idle.agent(Reply(("fine",)))


def body(text: str = "hello", **data: object) -> bytes:
    return json.dumps({"type": "message.received", "data": {"senderId": "u-1", "text": text, **data}}).encode()


def test_only_verified_requests_are_parsed(idle: EngineRig, receiver: WebhookReceiver) -> None:
    add_webhook(receiver)
    good = signed_headers("m1", body())
    refused = {
        "nothing": {"content-type": "application/json"},
        "another secret": signed_headers("m1", body(), secret=OTHER_SECRET),
        "another body": signed_headers("m1", body("other")),
        "too old": signed_headers("m1", body(), at=time.time() - 310),
        "from the future": signed_headers("m1", body(), at=time.time() + 310),
        "another id": {**good, "webhook-id": "m2"},
        "a dot": signed_headers("m.1", body()),
    }
    for why, headers in refused.items():
        assert post(PATH, body(), headers)[0] == 401, why
    assert not InboundMessage.objects.exists() and not Run.objects.exists()
    assert post(PATH, body(), good) == (202, {"id": "m1"})


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (("/channels/webhook/nobody/webhook", "POST", b"", {}), 404),
        (("/channels/nothing/crm/webhook", "POST", b"", {}), 404),
        ((PATH, "GET", b"", {}), 405),
        ((PATH, "POST", b"x" * (1024 * 1024 + 1), {}), 413),
        ((PATH, "POST", b"", {"content-length": "9999999999"}), 413),
        ((PATH, "POST", b"{", None), 400),
        ((PATH, "POST", b'{"type": "message.received", "data": {"text": 5}}', None), 422),
        ((PATH, "POST", b'{"type": "something.else"}', None), 202),
    ],
)
def test_other_answers(idle: EngineRig, receiver: WebhookReceiver, given: tuple, status: int) -> None:
    add_webhook(receiver)
    path, method, content, headers = given
    found, answer = post(path, content, signed_headers("m1", content) if headers is None else headers, method)
    assert found == status
    if status == 422:
        assert set(answer["fields"]) == {"data.senderId", "data.text"}
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"senderId": "ü" * 60}, {"data.senderId"}),
        ({"senderId": "u", "conversationId": "c" * 181}, {"data.conversationId"}),
        ({"senderId": "u", "attachments": [{"filename": "x"}]}, {"data.attachments.0.url"}),
        (
            {"senderId": "u", "attachments": [{"url": "https://e.org/", "sizeBytes": "3"}]},
            {"data.attachments.0.sizeBytes"},
        ),
        ({"senderId": "u", "attachments": [{"url": "https://e.org/"}] * 11}, {"data.attachments"}),
        ({"senderId": "u", "metadata": [1]}, {"data.metadata"}),
    ],
)
def test_what_cannot_be_kept_is_refused_by_its_name(
    idle: EngineRig, receiver: WebhookReceiver, given: dict, wrong: set
) -> None:
    add_webhook(receiver)
    content = json.dumps({"type": "message.received", "data": {"text": "hi", **given}}).encode()
    status, answer = post(PATH, content, signed_headers("m1", content))
    assert (status, set(answer["fields"])) == (422, wrong) and not InboundMessage.objects.exists()


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_numbers_that_no_database_stores_are_not_read(idle: EngineRig, receiver: WebhookReceiver, number: str) -> None:
    add_webhook(receiver)
    content = body(metadata={"n": 7}).replace(b"7", number.encode())
    assert post(PATH, content, signed_headers("m1", content))[0] == 400


def test_a_time_without_a_zone_is_utc(idle: EngineRig, receiver: WebhookReceiver) -> None:
    add_webhook(receiver)
    content = json.dumps({**json.loads(body()), "timestamp": "2026-01-02T03:04:05"}).encode()
    assert post(PATH, content, signed_headers("m1", content))[0] == 202
    assert InboundMessage.objects.get().sent_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize("error", [KeyError("x"), DataError("too long")])
def test_what_fails_each_time_does_not_hold_back_the_chat(
    idle: EngineRig,
    platform: FakeTelegram,
    receiver: WebhookReceiver,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    add_telegram(platform)
    add_webhook(receiver)

    def fail(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr("sessions_app.channels.inbound.dispatch.receive", fail)
    assert telegram(private_update(1, "hi")) == 200, "Telegram would send nothing else before it"
    assert webhook("hi", "m1")[0] == 500, "a program reads the answer"
    assert "could not be stored" in ChannelAccount.objects.get(channel="telegram").last_error


def test_a_body_that_does_not_come_is_not_waited_for(
    idle: EngineRig, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_module, "_BODY_SECONDS", 0.05)
    add_webhook(receiver)

    async def never(*args: object) -> bytes:
        await asyncio.Event().wait()
        return b""

    monkeypatch.setattr(webhook_module, "_read_body", never)
    assert post(PATH, b"", {})[0] == 408


def test_a_form_is_no_json(idle: EngineRig, receiver: WebhookReceiver) -> None:
    add_webhook(receiver)
    headers = {**signed_headers("m1", b"a=b"), "content-type": "application/x-www-form-urlencoded"}
    assert post(PATH, b"a=b", headers)[0] == 415


def test_an_account_that_is_switched_off_does_not_exist(idle: EngineRig, receiver: WebhookReceiver) -> None:
    account = add_webhook(receiver)
    accounts.set_enabled(account, False)
    assert webhook("hi", "m1")[0] == 404
    accounts.set_enabled(account, True)
    assert webhook("hi", "m1")[0] == 202


def test_the_second_secret_works_while_one_replaces_the_other(idle: EngineRig, receiver: WebhookReceiver) -> None:
    account = add_webhook(receiver)
    accounts.change_account(account, secrets={"secret": OTHER_SECRET, "previous_secret": SECRET})
    assert webhook("hi", "m1")[0] == 202
    assert post(PATH, body(), signed_headers("m2", body(), secret=OTHER_SECRET))[0] == 202
    accounts.change_account(ChannelAccount.objects.get(), secrets={"previous_secret": ""})
    assert webhook("hi", "m3")[0] == 401


async def test_twenty_copies_at_once_are_one_message(idle: EngineRig, receiver: WebhookReceiver) -> None:
    await in_db(add_webhook, receiver)
    webhook_module.known_accounts.forget()
    headers = signed_headers("m1", body())
    answers = await asyncio.gather(*[request(PATH, body(), headers) for _ in range(20)])
    assert [status for status, _ in answers] == [202] * 20
    counts = await in_db(lambda: (Run.objects.count(), Turn.objects.count(), InboundMessage.objects.count()))
    assert counts == (1, 1, 1)


def test_a_message_that_comes_again_under_a_new_id_is_the_same(idle: EngineRig, receiver: WebhookReceiver) -> None:
    add_webhook(receiver)
    for number in range(3):
        assert webhook("hi", f"delivery-{number}", messageId="real-1")[0] == 202
    assert Run.objects.count() == 1 and InboundKey.objects.count() == 2
    webhook("hi", "delivery-9", messageId="real-2")
    assert Run.objects.count() == 2


def test_nothing_is_half_stored_when_the_database_fails(
    idle: EngineRig, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_webhook(receiver)

    def fail(*args: object, **kwargs: object) -> None:
        raise DatabaseError("gone")

    with monkeypatch.context() as patch:
        patch.setattr("audit_app.services.emit", fail)
        assert webhook("hi", "m1")[0] == 503
    assert not InboundKey.objects.exists() and not Session.objects.exists()
    assert webhook("hi", "m1")[0] == 202
    assert Run.objects.count() == 1


def test_a_message_that_comes_again_does_what_its_first_taker_died_before(
    idle: EngineRig, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle.agent(Reply(("x",)), busy_policy="interrupt")
    add_webhook(receiver)
    webhook("one", "m1")
    with monkeypatch.context() as patch:
        patch.setattr("sessions_app.conversation.receive_message._interrupt_earlier", lambda accepted, policy: None)
        webhook("two", "m2")
    assert Run.objects.filter(ended_at=None).count() == 2
    assert webhook("two", "m2")[0] == 202
    assert Run.objects.get(ended_at=None).ordinal == 1


def test_a_sender_that_can_wait_gets_a_retry_after(idle: EngineRig, receiver: WebhookReceiver) -> None:
    idle.agent(Reply(("fine",)), queue_limit=2)
    add_webhook(receiver)
    statuses = [webhook("hi", f"m{number}")[0] for number in range(5)]
    assert statuses == [202, 202, 202, 429, 429]
    assert Run.objects.count() == InboundMessage.objects.count() == 3


def test_a_sender_that_can_wait_gets_a_retry_after_while_agents_are_stopped(
    idle: EngineRig, receiver: WebhookReceiver
) -> None:
    add_webhook(receiver)
    runs.stop_agents(reason="a leak")
    assert webhook("hi", "m1")[0] == 503
    assert not InboundMessage.objects.exists() and not InboundKey.objects.exists()
    runs.resume_agents()
    assert webhook("hi", "m1")[0] == 202
    assert Run.objects.count() == 1


def test_a_sender_gets_the_reason_while_agents_are_stopped(idle: EngineRig, platform: FakeTelegram) -> None:
    add_telegram(platform)
    runs.stop_agents(reason="a leak")
    assert telegram(private_update(1, "hi")) == 200
    assert InboundMessage.objects.get().reason == "stopped"
    assert "stopped by an operator: a leak" in Delivery.objects.get(kind="notice").text


def test_what_an_account_takes_away_is_kept_with_the_run(idle: EngineRig, receiver: WebhookReceiver) -> None:
    account = add_webhook(receiver)
    taken = {"readonly": True, "denied_tools": ["web_fetch"]}
    ChannelAccount.objects.filter(pk=account.pk).update(config={**account.config, **taken})
    assert webhook("hi", "m1")[0] == 202
    stored = Run.objects.get().session_policy
    assert stored == {"readonly": True, "deniedTools": ["web_fetch"], "tools": account.tools}


def test_a_sender_gets_a_notice_when_the_queue_is_full(idle: EngineRig, platform: FakeTelegram) -> None:
    idle.agent(Reply(("fine",)), queue_limit=1)
    add_telegram(platform)
    assert [telegram(private_update(number, "hi")) for number in range(3)] == [200] * 3
    assert InboundMessage.objects.exclude(reason="").values_list("reason", flat=True)[0] == "queue_full"
    assert "wait in this session" in Delivery.objects.get(kind="notice").text


def test_telegram_updates_that_are_odd_unwanted_or_repeated_are_acknowledged(
    idle: EngineRig, platform: FakeTelegram
) -> None:
    add_telegram(platform)
    edited = {"update_id": 3, "edited_message": private_update(1, "x")["message"]}
    for update in (7, {}, {"update_id": 1}, edited, group_update(4, "not for us")):
        assert telegram(update) == 200
    assert not InboundMessage.objects.exists()
    assert [telegram(private_update(1, "hi")) for _ in range(3)] == [200] * 3
    assert Run.objects.count() == 1
    assert telegram(private_update(1, "hi"), secret="wrong") == telegram(private_update(1, "hi"), secret="") == 401


def test_text_that_cannot_be_stored_as_it_is_is_taken_all_the_same(idle: EngineRig, platform: FakeTelegram) -> None:
    add_telegram(platform)
    assert telegram(private_update(1, "a\x00b \ud83d c", name="Z\x00o\u202e\ud800")) == 200
    assert Turn.objects.get().content == "ab ? c"


def test_two_people_in_one_bot_never_share_a_session(idle: EngineRig, platform: FakeTelegram) -> None:
    add_telegram(platform)
    telegram(private_update(1, "one", user=1, name="Same"))
    telegram(private_update(2, "two", user=2, name="Same"))
    telegram(group_update(3, "/status", user=1))
    telegram(group_update(4, "x", user=1, reply_to_message={"message_id": 1, "from": {"id": 123456789}}))
    telegram(group_update(5, "x", user=2, reply_to_message={"message_id": 1, "from": {"id": 123456789}}))
    keys = set(Session.objects.values_list("key", flat=True))
    assert keys == {"Telegram:main:1", "Telegram:main:2", "Telegram:main:-100777"}
    assert Run.objects.order_by("-id")[0].actor == "sender:Telegram:2"


def test_only_listed_senders_are_answered(idle: EngineRig, platform: FakeTelegram) -> None:
    add_telegram(platform, access="allow_list", allowed_senders=["501"])
    telegram(private_update(1, "hi", user=501))
    telegram(private_update(2, "hi", user=502))
    assert Run.objects.count() == 1 and not Delivery.objects.exists()
    assert InboundMessage.objects.get(sender_id="502").reason == "not_allowed"


def test_a_sender_pairs_by_a_code_that_works_once(idle: EngineRig, platform: FakeTelegram) -> None:
    account = add_telegram(platform, access="paired")
    telegram(private_update(1, "hi"))
    telegram(private_update(2, "hello?"))
    assert Delivery.objects.count() == 1, "sent once an hour"
    code = pairing_codes.make_code(account)
    telegram(private_update(3, f"/pair {code[:4].lower()}\u200b{code[4:]}"))
    telegram(private_update(4, "now?"))
    assert Run.objects.count() == 1
    telegram(private_update(5, f"/pair {code}", user=502))
    telegram(private_update(6, "me too", user=502))
    assert Run.objects.count() == 1
    reasons = list(InboundMessage.objects.order_by("id").values_list("reason", flat=True))
    assert reasons == ["not_paired", "not_paired", "paired", "", "pairing_failed", "not_paired"]


def test_codes_cannot_be_guessed_for_long(idle: EngineRig, platform: FakeTelegram) -> None:
    account = add_telegram(platform, access="paired")
    for number in range(pairing_codes.MOST_TRIES):
        telegram(private_update(number, "/pair AAAAAAAA"))
    telegram(private_update(90, f"/pair {pairing_codes.make_code(account)}"))
    assert not pairing_codes.is_paired(account, "501")


def test_new_begins_another_session_and_keeps_the_old_one(idle: EngineRig, platform: FakeTelegram) -> None:
    add_telegram(platform)
    telegram(private_update(1, "one"))
    for _ in range(2):
        telegram(private_update(2, "/new"))
    telegram(private_update(3, "two"))
    old, new = Session.objects.order_by("id")
    assert new.key == "Telegram:main:501" and old.key == f"Telegram:main:501:before-{old.id}"
    assert Turn.objects.filter(session=old).count() == Turn.objects.filter(session=new).count() == 1


def test_text_after_new_is_asked_for_again(idle: EngineRig, platform: FakeTelegram) -> None:
    add_telegram(platform)
    telegram(private_update(1, "/new what is the weather?"))
    assert "send it again" in Delivery.objects.get().text and not Run.objects.exists()


def test_stop_stops_and_a_late_copy_of_it_does_not(idle: EngineRig, platform: FakeTelegram) -> None:
    add_telegram(platform)
    telegram(private_update(1, "one"))
    telegram(private_update(2, "/stop"))
    assert Run.objects.get().status == "cancelled"
    telegram(private_update(3, "two"))
    telegram(private_update(2, "/stop"))
    assert Run.objects.order_by("-id")[0].status == "queued"
    assert "Stopped." in Delivery.objects.filter(kind="notice").values_list("text", flat=True)


def test_the_stop_button_of_a_preview_stops_its_run_alone(idle: EngineRig, platform: FakeTelegram) -> None:
    add_telegram(platform)
    telegram(private_update(1, "one"))
    chat = {"id": 501, "type": "private"}
    pressed = {
        "update_id": 7,
        "stopped_message_generation": {"chat": chat, "draft_id": draft_id_of(Run.objects.get().id)},
    }
    assert telegram(pressed) == 200 and Run.objects.get().status == "cancelled"
    telegram(private_update(2, "two"))
    assert telegram(pressed) == 200
    assert Run.objects.order_by("-id")[0].status == "queued", "a late copy stops no later run"


def test_help_and_status_answer_without_a_run(idle: EngineRig, platform: FakeTelegram) -> None:
    add_telegram(platform)
    telegram(private_update(1, "/help"))
    telegram(private_update(2, "/status"))
    replies = list(Delivery.objects.order_by("id").values_list("text", flat=True))
    assert "/new" in replies[0] and "no conversation" in replies[1] and not Run.objects.exists()


def test_compact_summarises_the_conversation_once(idle: EngineRig, platform: FakeTelegram) -> None:
    add_telegram(platform)
    telegram(private_update(1, "/compact"))
    telegram(private_update(2, "one"))
    idle.start()
    try:
        idle.wait(Run.objects.get().id)
        for _ in range(2):
            telegram(private_update(3, "/compact"))
        run = Run.objects.order_by("-id")[0]
        idle.wait(run.id)
        telegram(private_update(4, "/compact"))
    finally:
        idle.stop()
    assert (run.actor, run.session_key) == ("sender:Telegram:501", "Telegram:main:501")
    assert Checkpoint.objects.get().run_id == run.id and Run.objects.count() == 2
    assert list(Delivery.objects.order_by("id").values_list("text", flat=True)) == [
        "There is no conversation yet. Send me a message.",
        "fine",
        "I will summarise the earlier messages. They are kept.",
        "There is no message to summarise yet.",
    ]


def test_a_group_that_moves_keeps_its_session(idle: EngineRig, platform: FakeTelegram) -> None:
    add_telegram(platform)
    telegram(group_update(1, "/status"))
    telegram(group_update(2, "x", reply_to_message={"message_id": 1, "from": {"id": 123456789}}))
    telegram(group_update(3, "", migrate_to_chat_id=-200))
    assert Session.objects.get().key == "Telegram:main:-200"
    assert {row.target["chat"] for row in Delivery.objects.all()} == {"-200"}


def test_the_payload_is_kept_and_the_secret_is_not(idle: EngineRig, platform: FakeTelegram) -> None:
    add_telegram(platform)
    telegram(private_update(1, "hi"))
    row = InboundMessage.objects.get()
    assert json.loads(row.raw or "")["update_id"] == 90_001
    account = ChannelAccount.objects.get()
    assert TELEGRAM_SECRET not in str(account.__dict__) and TELEGRAM_SECRET not in str(row.__dict__)
    assert account.last_inbound_at is not None
