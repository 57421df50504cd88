"""SMS from Twilio's request through a run and back, with files, consent, approvals and reports."""

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from agents_app.providers.kinds.scripted import Reply
from sessions_app import services
from sessions_app.channels import accounts
from sessions_app.models import Attachment, ChannelAccount, Delivery, InboundMessage, Session
from sessions_app.platforms.account_settings import AccountSettings
from sessions_app.platforms.adapters.sms.adapter import Sms
from sessions_app.platforms.link import ConnectionLost, Received
from tests.fakes.twilio import ACCOUNT_SID, NUMBER, TOKEN, FakeTwilio, message_form, sid, signature_of
from tests.support.channels import open_to_everyone, post, settle
from tests.support.connections import SocketsThread
from tests.support.engine import EngineRig
from tools_app.registry import tools
from tools_app.storage import artifacts
from tools_app.types import Effect, Risk, Tool, ToolCall, ToolContext, ToolSpec

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

LONG = "word " * 999 + "end"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(50)
PATH = "/channels/sms/main/webhook"


@pytest.fixture
def twilio(settings: Any) -> Iterator[FakeTwilio]:
    settings.KOMAND_PUBLIC_URL = "https://komand.example"
    with FakeTwilio() as server:
        yield server


def add(server: FakeTwilio, **config: Any) -> ChannelAccount:
    config = {"account_sid": ACCOUNT_SID, "number": NUMBER, "api_url": server.url, "rate": 50, **config}
    account, _ = accounts.add_account(
        "sms", "main", config=config, secrets={"auth_token": TOKEN}, **open_to_everyone({})
    )
    return account


def deliver(fields: dict[str, str], token: str = TOKEN) -> tuple[int, Any]:
    body = urlencode(fields).encode()
    headers = {
        "content-type": "application/x-www-form-urlencoded",
        "x-twilio-signature": signature_of(f"https://komand.example{PATH}", body, token),
    }
    return post(PATH, body, headers)


def test_an_sms_with_a_picture_is_answered_once(rig: EngineRig, twilio: FakeTwilio) -> None:
    script = rig.agent(Reply(("It is **black**…",)))
    add(twilio)
    twilio.media["ME1"] = b"\x89PNG\r\n\x1a\n" + bytes(50)
    url = f"{twilio.url}/2010-04-01/Accounts/{ACCOUNT_SID}/Messages/{sid(1)}/Media/ME1"
    form = message_form(1, "What is this?", NumMedia="1", MediaUrl0=url, MediaContentType0="image/png")
    assert deliver(form) == (200, '<?xml version="1.0" encoding="UTF-8"?><Response/>')
    assert deliver(form)[0] == 200
    assert settle(rig) == ["sent"]
    [sent] = twilio.sent
    assert sent["Body"] == "It is black..." and sent["To"] == "+15550001111" and sent["From"] == NUMBER
    assert sent["StatusCallback"] == f"https://komand.example{PATH}"
    assert Attachment.objects.get().status == "stored" and len(script.requests) == 1
    report = {"MessageSid": sid(9001), "MessageStatus": "delivered", "AccountSid": ACCOUNT_SID}
    assert deliver(report)[0] == 200 and Delivery.objects.get().report == "delivered"


class Draw(Tool):
    """Write a picture, and a text beside it."""

    spec = ToolSpec("draw", "Draws.", {"type": "object"}, Effect.KEYED, Risk.LOW)

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        writer = artifacts.Writer(context.session_id, context.run_id)
        artifacts.write_artifact(writer, "out/cat.png", PNG, media_type="image/png")
        artifacts.write_artifact(writer, "out/cat.txt", b"a cat", media_type="text/plain")
        return {}


def test_pictures_are_sent_as_mms_and_other_files_as_links(rig: EngineRig, twilio: FakeTwilio) -> None:
    rig.agent(Reply(tool_calls=(ToolCall("c1", "draw", "{}"),)), Reply(("Here it is.",)))
    with tools.override(Draw()):
        add(twilio, mms=True)
        deliver(message_form(1, "Draw a cat."))
        assert settle(rig, 2) == ["sent"] * 2
    text, picture = twilio.sent
    assert (
        text["Body"].startswith("Here it is.\n\nFiles:") and "cat.txt" in text["Body"] and "cat.png" not in text["Body"]
    )
    assert "MediaUrl" not in text and "Body" not in picture and picture["To"] == "+15550001111"
    fetched = Client().get(picture["MediaUrl"].removeprefix("https://komand.example"))
    assert (fetched.content, fetched["Content-Type"]) == (PNG, "image/png")


def test_forged_foreign_and_unwanted_requests_start_nothing(rig: EngineRig, twilio: FakeTwilio) -> None:
    add(twilio)
    assert deliver(message_form(1, "hi"), token="wrong")[0] == 401
    assert deliver({**message_form(2, "hi"), "AccountSid": "AC" + "1" * 32})[0] == 200
    assert deliver(message_form(3, "STOP"))[0] == 200
    assert list(InboundMessage.objects.values_list("reason", flat=True)) == ["opted_out"]
    assert not twilio.sent


def test_a_number_that_has_opted_out_ends_the_delivery(rig: EngineRig, twilio: FakeTwilio) -> None:
    rig.agent(Reply(("hello",)))
    add(twilio)
    twilio.opted_out.add("+15550001111")
    deliver(message_form(1, "hi"))
    assert settle(rig) == ["failed"] and "21610" in Delivery.objects.get().error


def test_without_a_public_address_messages_are_fetched(rig: EngineRig, twilio: FakeTwilio, settings: Any) -> None:
    settings.KOMAND_PUBLIC_URL = ""
    rig.agent(Reply(("one",)), Reply(("two",)))
    add(twilio, poll_seconds=0.05)
    with SocketsThread():
        twilio.queue(1, "first")
        assert settle(rig, 1) == ["sent"]
        twilio.queue(2, "second")
        assert settle(rig, 2) == ["sent"] * 2
    assert twilio.texts() == ["one", "two"] and "StatusCallback" not in twilio.sent[0]
    assert InboundMessage.objects.count() == 2


def test_the_test_of_an_account_sets_the_webhook_of_the_number(twilio: FakeTwilio) -> None:
    account = add(twilio)
    assert f"Twilio sends messages to https://komand.example{PATH}." in accounts.try_out(account).lines
    assert twilio.hooks == {"SmsUrl": f"https://komand.example{PATH}", "SmsMethod": "POST"}


def test_a_very_long_answer_ends_with_a_link_to_the_whole_text(rig: EngineRig, twilio: FakeTwilio) -> None:
    rig.agent(Reply(("Let me see.",), tool_calls=(ToolCall("c1", "echo", '{"text": "x"}'),)), Reply((LONG,)))
    add(twilio, most_parts=2)
    deliver(message_form(1, "hi"))
    assert settle(rig, 3) == ["sent"] * 3
    assert twilio.texts()[0].startswith("Let me see.\n\nword word")
    note, _, path = twilio.texts()[-1].partition("https://komand.example")
    page = Client().get(path)
    assert note == "The whole answer: " and page.content.decode() == f"Let me see.\n\n{LONG}"
    assert page["Content-Type"].startswith("text/plain") and page["X-Content-Type-Options"] == "nosniff"
    assert "no-store" in page["Cache-Control"] and Client().get(f"{path}x").status_code == 403
    services.delete_session(Session.objects.get())
    assert Client().get(path).status_code == 403


def test_without_a_public_address_a_very_long_answer_is_cut_with_a_notice(
    rig: EngineRig, twilio: FakeTwilio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessions_app.channels.file_links.make_for_answer", lambda *_: "")
    rig.agent(Reply((LONG,)))
    add(twilio, most_parts=2)
    deliver(message_form(1, "hi"))
    assert settle(rig, 3) == ["sent"] * 3
    assert "characters were not sent" in twilio.texts()[-1] and twilio.texts()[0].startswith("word word")


async def test_a_long_pause_between_polls_does_not_look_like_a_broken_connection(
    twilio: FakeTwilio, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        raise ConnectionLost("enough")

    monkeypatch.setattr("sessions_app.platforms.adapters.sms.message_list.asyncio.sleep", sleep)
    config = {"account_sid": ACCOUNT_SID, "number": NUMBER, "api_url": twilio.url, "poll_seconds": 3600}
    adapter = Sms(AccountSettings("a", config, {"auth_token": TOKEN}))
    link = Silent()
    with pytest.raises(ConnectionLost, match="enough"):
        await adapter.listen(link)
    assert link.heartbeats == 1 and pauses and max(pauses) < Sms.silent_seconds
    await adapter.aclose()


class Silent:
    """A link without a cursor."""

    cursor = ""
    heartbeats = 0

    async def deliver(self, received: Sequence[Received], cursor: str) -> None:
        raise AssertionError("nothing came")

    def heartbeat(self) -> None:
        self.heartbeats += 1
