"""WhatsApp from the webhook through a run and back, with files, buttons, several numbers and the 24 hours."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from agents_app.providers.kinds.scripted import Reply
from sessions_app.channels import accounts
from sessions_app.models import Attachment, ChannelAccount, Delivery, InboundMessage, Pairing, Session
from sessions_app.platforms.account_settings import AccountSettings
from sessions_app.platforms.adapters.whatsapp.adapter import WhatsApp
from sessions_app.platforms.base import SendCertainty, SendError
from sessions_app.platforms.messages import Button, Chat, Outgoing, OutgoingFile, Rendered, Target
from tests.fakes.whatsapp import (
    APP_SECRET,
    NUMBER_ID,
    OTHER_NUMBER_ID,
    TOKEN,
    USER,
    VERIFY_TOKEN,
    FakeWhatsApp,
    buttons_of,
    handshake,
    message,
    payload,
    signed_headers,
)
from tests.support.approvals import Launch, wants_to_launch
from tests.support.channels import open_to_everyone, post, settle
from tests.support.engine import EngineRig, until
from tools_app.models import Approval

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

PATH = "/channels/whatsapp/main/webhook"


@pytest.fixture
def platform(settings: Any) -> Iterator[FakeWhatsApp]:
    settings.KOMAND_PUBLIC_URL = "https://komand.example"
    with FakeWhatsApp() as server:
        yield server


def add(server: FakeWhatsApp, name: str = "main", number: str = NUMBER_ID, **config: Any) -> ChannelAccount:
    config = {"phone_number_id": number, "api_url": server.url, "chat_seconds": 0, **config}
    secrets = {"access_token": TOKEN, "app_secret": config.pop("app_secret", APP_SECRET), "verify_token": VERIFY_TOKEN}
    account, _ = accounts.add_account("whatsapp", name, config=config, secrets=secrets, **open_to_everyone({}))
    return account


def deliver(content: dict[str, Any]) -> int:
    body = json.dumps(content).encode()
    return post(PATH, body, signed_headers(body))[0]


def test_a_message_with_a_voice_note_is_answered_once(rig: EngineRig, platform: FakeWhatsApp) -> None:
    rig.agent(Reply(("I *heard* it.",)))
    add(platform)
    platform.media["777777"] = b"OggS" + bytes(50)
    audio = {"id": "777777", "mime_type": "audio/ogg; codecs=opus", "voice": True}
    for _ in range(3):
        assert deliver(payload(message(1, type="audio", audio=audio))) == 200
    assert settle(rig) == ["sent"] and platform.texts() == ["I _heard_ it."]
    assert platform.sent[0]["to"] == USER and Attachment.objects.get().status == "stored"
    assert platform.typing[:1] in ([], ["wamid.in1"]) and InboundMessage.objects.count() == 1
    assert deliver(payload(statuses=[{"id": "wamid.1", "status": "read"}])) == 200
    assert Delivery.objects.get().report == "read"


def test_the_numbers_of_an_app_share_its_webhook(rig: EngineRig, platform: FakeWhatsApp) -> None:
    rig.agent(Reply(("one",)), Reply(("two",)))
    add(platform)
    add(platform, "second", OTHER_NUMBER_ID)
    deliver(payload(message(1, "a")))
    deliver(payload(message(2, "b"), number=OTHER_NUMBER_ID))
    deliver(payload(message(3, "c"), number="999999"))
    assert settle(rig, 2) == ["sent"] * 2
    assert {session.account_id for session in Session.objects.all()} == {"main", "second"}
    assert InboundMessage.objects.count() == 2


def test_a_number_of_another_app_takes_nothing_from_this_one(rig: EngineRig, platform: FakeWhatsApp) -> None:
    add(platform)
    add(platform, "second", OTHER_NUMBER_ID, app_secret="the secret of another app")
    assert deliver(payload(message(2, "b"), number=OTHER_NUMBER_ID)) == 200
    assert not InboundMessage.objects.exists()


def test_forged_requests_are_refused_and_the_handshake_is_answered(platform: FakeWhatsApp) -> None:
    add(platform)
    body = json.dumps(payload(message(1, "x"))).encode()
    assert post(PATH, body, signed_headers(body, "wrong"))[0] == 401
    assert post(f"{PATH}?{handshake()}", b"", {}, "GET") == (200, "1158201444")
    assert post(f"{PATH}?{handshake('wrong')}", b"", {}, "GET")[0] == 401
    assert not InboundMessage.objects.exists()


def test_an_answer_after_24_hours_fails_with_the_reason(rig: EngineRig, platform: FakeWhatsApp) -> None:
    rig.agent(Reply(("late",)))
    add(platform)
    platform.closed.add(USER)
    deliver(payload(message(1, "hi")))
    assert settle(rig) == ["failed"] and "24 hours" in Delivery.objects.get().error


def test_a_button_decides_a_request(
    rig: EngineRig, platform: FakeWhatsApp, launch: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Launch, "launched", [])
    wants_to_launch(rig)
    account = add(platform, approvers=[USER])
    Pairing.objects.create(account=account, sender_id=USER, user=User.objects.create_user("zoe", is_superuser=True))
    deliver(payload(message(1, "launch it")))
    until(lambda: bool(platform.sent))
    buttons = buttons_of(platform.sent[0])
    assert list(buttons) == ["Allow once", "Deny"]
    reply = {"type": "button_reply", "button_reply": {"id": buttons["Allow once"], "title": "Allow once"}}
    deliver(payload(message(2, type="interactive", interactive=reply, context={"id": "wamid.1"})))
    assert Approval.objects.get().status == "approved"
    until(lambda: "Over." in platform.texts())
    assert Launch.launched == ["moon"]


def test_the_test_of_an_account_sets_the_webhook_of_the_app(platform: FakeWhatsApp) -> None:
    lines = accounts.try_out(add(platform, app_id="12345678")).lines
    assert "The number is +1 555-000-6789 (Komand)." in lines
    assert platform.hook["callback_url"] == f"https://komand.example{PATH}" and platform.hook["fields"] == "messages"


def test_an_expired_token_ends_the_account(rig: EngineRig, platform: FakeWhatsApp) -> None:
    rig.agent(Reply(("x",)))
    account = add(platform)
    accounts.change_account(account, secrets={"access_token": "expired"})
    deliver(payload(message(1, "hi")))
    until(lambda: not ChannelAccount.objects.get().is_enabled)
    assert "system user" in ChannelAccount.objects.get().last_error


async def test_the_text_of_a_prompt_is_not_repeated_with_its_buttons(platform: FakeWhatsApp) -> None:
    secrets = {"access_token": TOKEN, "app_secret": APP_SECRET, "verify_token": VERIFY_TOKEN}
    adapter = WhatsApp(AccountSettings("a", {"phone_number_id": NUMBER_ID, "api_url": platform.url}, secrets))
    text, press = Rendered("x" * 2000, "x" * 2000), (Button("Allow once", "apr:x:y"),)
    prompt = Outgoing("k", Target(Chat(USER)), text, kind="approval", buttons=press)
    platform.refuses_buttons = 1
    with pytest.raises(SendError) as refused:
        await adapter.send(prompt)
    assert refused.value.certainty is SendCertainty.NOT_SENT
    await adapter.send(prompt)
    assert platform.texts() == ["x" * 2000, "Your decision?"]
    await adapter.aclose()


async def test_files_of_agents_are_uploaded_and_shown_by_their_kind(platform: FakeWhatsApp) -> None:
    secrets = {"access_token": TOKEN, "app_secret": APP_SECRET, "verify_token": VERIFY_TOKEN}
    adapter = WhatsApp(AccountSettings("a", {"phone_number_id": NUMBER_ID, "api_url": platform.url}, secrets))
    for name, kind in (("plot.png", "image/png"), ("table.csv", "text/csv")):
        file = OutgoingFile(name, kind, b"content of " + name.encode())
        await adapter.send(Outgoing("k", Target(Chat(USER)), Rendered("here", "here"), file=file))
    picture, document = platform.sent
    assert picture["image"] == {"id": "5001", "caption": "here"}
    assert document["document"] == {"id": "5002", "caption": "here", "filename": "table.csv"}
    assert [b"content of plot.png" in platform.uploads[0], b"content of table.csv" in platform.uploads[1]] == [True] * 2
    await adapter.aclose()
