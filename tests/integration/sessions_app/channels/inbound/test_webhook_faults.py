"""Faults of the inbound side: an unavailable database, a process that dies between two writes, odd numbers."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from sessions_app.channels import accounts
from sessions_app.channels.inbound import commands, pairing_codes
from sessions_app.models import ChannelAccount, Delivery, InboundMessage
from sessions_app.platforms.adapters.telegram.adapter import Telegram
from sessions_app.platforms.adapters.webhook import Webhook
from sessions_app.platforms.base import Checked
from tests.fakes.telegram import BOT_ID, FakeTelegram, group_update, private_update
from tests.fakes.webhook_receiver import WebhookReceiver, signed_headers
from tests.support.channels import add_telegram, add_webhook, post, telegram, webhook
from tests.support.engine import EngineRig

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


@pytest.fixture(autouse=True)
def _agent(idle: EngineRig) -> None:
    idle.agent(Reply(("fine",)))


def away(*args: Any, **kwargs: Any) -> Any:
    raise OperationalError("the database is away")


def test_senders_are_asked_to_retry_while_the_database_is_unavailable(
    idle: EngineRig, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_webhook(receiver)
    with monkeypatch.context() as patch:
        patch.setattr(accounts, "find_account", away)
        status, answer = webhook("hi", "m1")
        assert (status, answer["error"]) == (503, "unavailable")
    assert webhook("hi", "m1")[0] == 202


@pytest.mark.parametrize("size", [-1, 2**63, 10**40])
def test_a_size_that_no_file_has_is_refused_by_its_name(idle: EngineRig, receiver: WebhookReceiver, size: int) -> None:
    add_webhook(receiver)
    file = {"url": "https://example.org/", "sizeBytes": size}
    content = json.dumps({"type": "message.received", "data": {"senderId": "u", "attachments": [file]}}).encode()
    status, answer = post("/channels/webhook/crm/webhook", content, signed_headers("m1", content))
    assert (status, set(answer["fields"])) == (422, {"data.attachments.0.sizeBytes"})
    assert not InboundMessage.objects.exists()


def test_who_pairs_while_the_database_goes_away_is_paired_by_the_next_try(
    idle: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = add_telegram(platform, access="paired")
    code = pairing_codes.make_code(account)
    with monkeypatch.context() as patch:
        patch.setattr(commands, "plan_notice", away)
        assert telegram(private_update(1, f"/pair {code}")) == 503
    assert telegram(private_update(1, f"/pair {code}")) == 200
    assert pairing_codes.is_paired(account, "501") and "You are paired" in Delivery.objects.get().text


def test_an_account_that_is_switched_off_while_it_is_tried_stays_off(
    idle: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = add_telegram(platform)

    async def check(self: Telegram) -> Checked:
        return Checked(("fine",), {"bot_username": "another_bot"})

    def switch_off(account: ChannelAccount) -> Checked:
        accounts.set_enabled(ChannelAccount.objects.get(), False)
        return real(account)

    real = accounts._check
    monkeypatch.setattr(Telegram, "check", check)
    monkeypatch.setattr(accounts, "_check", switch_off)
    accounts.try_out(account)
    stored = ChannelAccount.objects.get()
    assert not stored.is_enabled and stored.config["bot_username"] == "another_bot"


def test_a_part_of_an_album_that_comes_too_late_and_gets_no_run_belongs_to_none(
    idle: EngineRig, platform: FakeTelegram
) -> None:
    add_telegram(platform)
    album = {"media_group_id": "9", "photo": [{"file_id": "x"}]}
    telegram(group_update(1, "", reply_to_message={"message_id": 1, "from": {"id": BOT_ID}}, **album))
    Run.objects.update(status="running", ready_at=None)
    telegram(group_update(2, "", **album))
    late = InboundMessage.objects.get(reason="not_addressed")
    assert (late.run, late.turn, late.session) == (None, None, None)


def test_a_file_of_secrets_that_is_no_text_is_reported(valkey: object, tmp_path: Path) -> None:
    (tmp_path / "secrets.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CommandError, match=r"secrets\.json is not a UTF-8 text file"):
        call_command("channel", "add", "telegram", "main", "--secrets", str(tmp_path / "secrets.json"))


def test_what_an_adapter_cannot_read_does_not_hold_back_the_chat(
    idle: EngineRig, platform: FakeTelegram, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parse(*args: Any) -> Any:
        raise KeyError("x")

    add_telegram(platform)
    add_webhook(receiver)
    monkeypatch.setattr(Telegram, "parse", parse)
    monkeypatch.setattr(Webhook, "parse", parse)
    assert telegram(private_update(1, "hi")) == 200, "Telegram would send nothing else before it"
    assert webhook("hi", "m1")[0] == 500, "a program reads the answer"
    assert "could not be read" in ChannelAccount.objects.get(channel="telegram").last_error


def test_a_proof_that_an_adapter_cannot_read_is_none(
    idle: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    def verify(*args: Any) -> Any:
        raise ValueError("x")

    add_telegram(platform)
    monkeypatch.setattr(Telegram, "verify", verify)
    assert telegram(private_update(1, "hi")) == 401
