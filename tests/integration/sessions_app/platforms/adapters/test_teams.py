"""Teams from the messaging endpoint through a run and back, with streams, cards, files and expired tokens."""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from agents_app.providers.kinds.scripted import Reply
from sessions_app.channels import accounts
from sessions_app.models import Attachment, ChannelAccount, Delivery, InboundMessage, Pairing, Session
from sessions_app.platforms.account_settings import AccountSettings
from sessions_app.platforms.adapters.teams.activities import OF_BOT
from sessions_app.platforms.adapters.teams.adapter import Teams
from sessions_app.platforms.messages import Attachment as SentFile
from tests.fakes.http_server import Fault
from tests.fakes.teams import CHAT, PASSWORD, TENANT_ID, USER, FakeTeams, activity, headers_for
from tests.support.approvals import Launch, wants_to_launch
from tests.support.channels import open_to_everyone, post, settle
from tests.support.engine import EngineRig, until
from tools_app.models import Approval
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

PATH = "/channels/teams/main/webhook"
GROUP = {"id": "19:abc@thread.tacv2;messageid=177", "conversationType": "channel", "tenantId": TENANT_ID}


@pytest.fixture
def service(settings: Any) -> Iterator[FakeTeams]:
    settings.KOMAND_PUBLIC_URL = "https://komand.example"
    with FakeTeams() as server:
        settings.KOMAND_CALLBACK_ALLOW_PRIVATE = [server.address]
        yield server


def add(server: FakeTeams, **config: Any) -> ChannelAccount:
    config = {**server.config, **config}
    secrets = {"app_password": PASSWORD}
    account, _ = accounts.add_account("teams", "main", config=config, secrets=secrets, **open_to_everyone({}))
    return account


def deliver(server: FakeTeams, number: int, text: str = "hello", **fields: Any) -> tuple[int, Any]:
    body = json.dumps(activity(number, text, service=server.url, **fields)).encode()
    return post(PATH, body, headers_for(body))


def test_a_message_with_a_picture_is_answered_once(rig: EngineRig, service: FakeTeams) -> None:
    rig.agent(Reply(("Hello **Zoë**",)))
    add(service, drafts=False)
    service.files["/teams/v3/attachments/1"] = b"\x89PNG\r\n\x1a\n" + bytes(50)
    picture = {"contentType": "image/*", "contentUrl": f"{service.url}/teams/v3/attachments/1"}
    for _ in range(3):
        assert deliver(service, 1, "look", attachments=[picture]) == (200, None)
    assert settle(rig) == ["sent"] and service.texts() == ["Hello **Zoë**"]
    assert Attachment.objects.get().status == "stored" and InboundMessage.objects.count() == 1
    assert service.posted[0]["recipient"] == {"id": USER} and service.posted[0]["textFormat"] == "markdown"
    assert Session.objects.get().key.startswith("Teams:main:")
    assert service.key_requests == 1 and service.token_requests <= 3


def test_forged_requests_start_nothing(service: FakeTeams) -> None:
    add(service)
    body = json.dumps(activity(1, service=service.url)).encode()
    good = headers_for(body)
    for headers in ({**good, "authorization": ""}, headers_for(body, aud="x"), headers_for(body, key="key-9")):
        assert post(PATH, body, headers)[0] == 401
    assert post(PATH, body.replace(b"/teams/", b".evil.test/"), good)[0] == 401
    assert service.key_requests == 1 and not InboundMessage.objects.exists()


def test_an_answer_of_one_paragraph_is_streamed(rig: EngineRig, service: FakeTeams) -> None:
    words, held = [f"word{number} " for number in range(24)], threading.Event()
    rig.agent(Reply((*words, "end."), held_by=held, delay_seconds=0.2))
    add(service)
    deliver(service, 1)
    until(lambda: any(len(shown) > 1 for shown in service.streams.values()))
    held.set()
    assert settle(rig) == ["sent"] and service.activities == {"stream-1": "".join((*words, "end."))}
    assert not any("\n\n" in text for text in service.streams["stream-1"])


def test_an_answer_is_streamed_by_paragraphs_and_ends_as_one_message(rig: EngineRig, service: FakeTeams) -> None:
    held = threading.Event()
    rig.agent(Reply(("First paragraph.\n\n", "Second ", "paragraph.\n\nLast."), held_by=held))
    add(service)
    deliver(service, 1)
    until(lambda: bool(service.streams))
    assert (
        list(service.streams.values()) == [["First paragraph.\n\nSecond paragraph."]]
        or ["First paragraph."] in service.streams.values()
    )
    held.set()
    assert settle(rig) == ["sent"]
    assert service.activities == {"stream-1": "First paragraph.\n\nSecond paragraph.\n\nLast."}


def test_a_stream_that_ended_too_early_is_replaced_by_the_answer(rig: EngineRig, service: FakeTeams) -> None:
    held = threading.Event()
    rig.agent(Reply(("First.\n\nSecond.", " Last."), held_by=held))
    add(service)
    deliver(service, 1)
    until(lambda: bool(service.streams))
    service.ended = True
    held.set()
    assert settle(rig) == ["sent"] and service.texts() == ["First.\n\nSecond. Last."]


def test_in_a_channel_the_thread_is_answered(rig: EngineRig, service: FakeTeams) -> None:
    held = threading.Event()
    rig.agent(Reply(("Here.\n\nDone.",), held_by=held))
    add(service)
    mention = [{"type": "mention", "mentioned": {"id": activity(0)["recipient"]["id"]}, "text": "<at>K</at>"}]
    deliver(service, 1, "<at>K</at> hi", conversation=GROUP, entities=mention)
    deliver(service, 2, "not for us", conversation=GROUP)  # before the answer: later it would follow it
    held.set()
    assert settle(rig) == ["sent"] and not service.streams
    assert service.posted[0]["conversation"]["id"] == GROUP["id"] and InboundMessage.objects.count() == 1


def test_a_card_decides_a_request_and_is_replaced(
    rig: EngineRig, service: FakeTeams, launch: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Launch, "launched", [])
    wants_to_launch(rig)
    account = add(service, approvers=[USER])
    Pairing.objects.create(account=account, sender_id=USER, user=User.objects.create_user("zoe", is_superuser=True))
    deliver(service, 1, "launch it")
    until(lambda: bool(service.posted))
    [card] = service.posted[0]["attachments"]
    assert "launch" in service.activities["act-1"] and "text" not in service.posted[0]
    actions = {action["title"]: action["data"] for action in card["content"]["actions"]}
    assert list(actions) == ["Allow once", "Allow for this run", "Always allow", "Deny"]
    until(lambda: Delivery.objects.get(kind="approval").status == "sent")
    value = {"action": {"type": "Action.Execute", "verb": "press", "data": actions["Allow once"]}}
    pressed = {"type": "invoke", "name": "adaptiveCard/action", "value": value, "replyToId": "act-1"}
    status, answer = deliver(service, 2, "", **pressed)
    assert status == 200 and answer["statusCode"] == 200
    assert Approval.objects.get().status == "approved"
    until(lambda: "Over." in service.texts() and "Allowed once by" in service.activities["act-1"])
    assert all("attachments" not in activity for activity in service.posted[1:]), "the buttons are gone"
    assert Launch.launched == ["moon"]


def test_an_edit_before_the_run_and_other_kinds_are_taken(rig: EngineRig, service: FakeTeams) -> None:
    add(service)
    for number, kind in enumerate(("conversationUpdate", "installationUpdate", "typing", "brand new", "messageDelete")):
        assert deliver(service, number, type=kind)[0] == 200
    assert not InboundMessage.objects.exists()


def test_a_token_that_ended_early_is_replaced(rig: EngineRig, service: FakeTeams) -> None:
    rig.agent(Reply(("one",)))
    add(service, drafts=False)
    service.faults.append(Fault("status", 401, only="/activities"))
    service.faults.append(Fault("status", 401, only="/activities"))
    deliver(service, 1)
    assert settle(rig) == ["sent"] and service.texts() == ["one"] and service.token_requests >= 2


def test_a_refused_secret_ends_the_account(rig: EngineRig, service: FakeTeams) -> None:
    rig.agent(Reply(("x",)))
    account = add(service)
    service.valid_password = "another"
    deliver(service, 1)
    until(lambda: not ChannelAccount.objects.get(pk=account.pk).is_enabled)
    assert "client secret" in ChannelAccount.objects.get().last_error


def test_the_test_of_an_account_names_the_endpoint(service: FakeTeams) -> None:
    lines = accounts.try_out(add(service)).lines
    assert f"Its messaging endpoint in Azure must be https://komand.example{PATH}." in lines
    assert CHAT not in " ".join(lines)


async def test_the_token_of_a_picture_goes_with_no_later_request(service: FakeTeams) -> None:
    hours = [0]
    settings = AccountSettings("a", service.config, {"app_password": PASSWORD})
    adapter = Teams(settings, clock=lambda: datetime.now(UTC) + timedelta(hours=hours[0]))
    service.files["/teams/v3/attachments/1"] = b"content"
    picture = SentFile(f"{OF_BOT}{service.url}/teams/v3/attachments/1", "image", auth="bot")
    assert b"".join([piece async for piece in adapter.fetch(picture, 100)]) == b"content"
    hours[0] = 2
    assert b"".join([piece async for piece in adapter.fetch(picture, 100)]) == b"content"
    assert service.token_requests == 2 and not service.has_leaked
    await adapter.aclose()


def test_a_pressed_option_is_shown_by_its_card_alone(rig: EngineRig, service: FakeTeams) -> None:
    ask = ToolCall("c", "ask_user", json.dumps({"question": "Which colour?", "options": ["Red", "Blue"]}))
    rig.agent(Reply(tool_calls=(ask,)), Reply(("Painted.",)))
    add(service, drafts=False)
    deliver(service, 1, "paint it")
    until(lambda: bool(service.posted))
    [card] = service.posted[0]["attachments"]
    actions = {action["title"]: action["data"] for action in card["content"]["actions"]}
    until(lambda: Delivery.objects.get().status == "sent")
    value = {"action": {"type": "Action.Execute", "verb": "press", "data": actions["Blue"]}}
    deliver(service, 2, "", type="invoke", name="adaptiveCard/action", value=value, replyToId="act-1")
    until(lambda: "Painted." in service.texts() and "→ Blue" in service.activities["act-1"])
    assert not Delivery.objects.filter(kind="press").exists() and "Blue" not in service.texts()
