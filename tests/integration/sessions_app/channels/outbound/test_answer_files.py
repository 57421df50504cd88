"""Files that a run wrote: sent after its answer, or as links that expire."""

import json
from datetime import timedelta
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from agents_app.providers.kinds.scripted import Reply
from sessions_app import services
from sessions_app.channels import file_links
from sessions_app.models import Delivery, Pairing, SenderLink, Session
from tests.fakes.http_server import Fault
from tests.fakes.telegram import FakeTelegram, private_update
from tests.fakes.webhook_receiver import WebhookReceiver
from tests.support.absent_store import fail_first_read
from tests.support.channels import add_telegram, add_webhook, settle, telegram, webhook
from tests.support.engine import EngineRig, until
from tests.support.rest import RestCaller
from tools_app.storage import artifacts
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


def writing(path: str = "out/report.csv", content: str = "a;b", text: str = "") -> Reply:
    arguments = json.dumps({"path": path, "content": content})
    return Reply((text,) if text else (), tool_calls=(ToolCall("c1", "write_artifact", arguments),))


def test_a_file_follows_the_answer(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(writing(), Reply(("Here it is.",)))
    add_telegram(platform)
    telegram(private_update(1, "a report, please"))
    assert settle(rig) == ["sent", "sent"]
    assert platform.chat(501) == ["Here it is."]
    [sent] = [call.fields["multipart"] for call in platform.calls if call.method == "sendDocument"]
    assert 'filename="report.csv"' in sent and "text/csv" in sent and "a;b" in sent
    assert [(row.part, row.parts) for row in Delivery.objects.order_by("id")] == [(0, 2), (1, 2)]


def test_a_file_that_the_platform_refuses_is_reported_and_the_text_stays(
    rig: EngineRig, platform: FakeTelegram
) -> None:
    rig.agent(writing(), Reply(("Here it is.",)))
    add_telegram(platform)
    platform.faults.append(Fault("status", 400, only="sendDocument"))
    telegram(private_update(1, "a report, please"))
    assert settle(rig) == ["sent", "failed"] and platform.chat(501) == ["Here it is."]


def test_a_file_that_was_deleted_meanwhile_is_not_sent(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(writing(), Reply(("Here it is.",)))
    add_telegram(platform, config={"drafts": False})
    platform.faults.append(Fault("status", 502, only="sendMessage"))
    telegram(private_update(1, "a report, please"))
    until(Delivery.objects.filter(part=1).exists)
    artifacts.delete_artifact(Session.objects.get().pk, "out/report.csv")
    assert settle(rig) == ["sent", "failed"]
    assert "no such file" in Delivery.objects.get(status="failed").error


def test_a_file_that_cannot_be_read_just_now_is_sent_later(
    rig: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.agent(writing(), Reply(("Here it is.",)))
    add_telegram(platform)
    reads = fail_first_read(monkeypatch)
    telegram(private_update(1, "a report, please"))
    assert settle(rig) == ["sent", "sent"] and len(reads) == 2
    assert [call.method for call in platform.calls].count("sendDocument") == 1


def test_a_channel_without_files_gets_a_link_that_expires(
    rig: EngineRig, receiver: WebhookReceiver, settings: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.KOMAND_PUBLIC_URL = "https://komand.example"  # type: ignore[attr-defined]
    rig.agent(writing(path="out/re_port.csv"), Reply(("Here it is.",)))
    add_webhook(receiver)
    webhook("a report, please", "m1")
    assert settle(rig) == ["sent"]
    [text] = receiver.messages
    assert text.startswith(
        "Here it is.\n\nFiles:\n\n- [re\\_port.csv (3\xa0bytes)](https://komand.example/channels/files/"
    )
    path = text.partition("https://komand.example")[2].rstrip(")")
    fail_first_read(monkeypatch)
    assert Client().get(path).status_code == 503
    answer = Client().get(path)
    assert answer.status_code == 200 and answer.content == b"a;b"
    assert answer["Content-Disposition"] == 'attachment; filename="re_port.csv"'
    assert answer["X-Content-Type-Options"] == "nosniff" and "no-store" in answer["Cache-Control"]
    services.delete_session(Session.objects.get())
    assert Client().get(path).status_code == 403


def test_a_program_gets_a_file_as_an_attachment(rig: EngineRig, receiver: WebhookReceiver, settings: object) -> None:
    settings.KOMAND_PUBLIC_URL = "https://komand.example"  # type: ignore[attr-defined]
    rig.agent(writing(), Reply(("Here it is.",)))
    add_webhook(receiver, config={"files": True})
    sent = {"timestamp": "2026-02-23T10:30:00Z", "channelAccountId": "main", "metadata": {"page": "prices"}}
    webhook("a report, please", "m1", **sent)
    assert settle(rig) == ["sent", "sent"]
    text, file = [callback.body["data"] for callback in receiver.callbacks]
    assert (text["text"], text["attachments"]) == ("Here it is.", [])
    [attachment] = file["attachments"]
    url = attachment.pop("url")
    assert attachment == {"filename": "report.csv", "mimeType": "text/csv", "sizeBytes": 3}
    assert Client().get(url.removeprefix("https://komand.example")).content == b"a;b"
    session = Session.objects.get()
    session.owner = rig.owner
    session.save()
    [message, _] = RestCaller(rig.owner).get(f"sessions/{session.pk}/messages").data
    assert (message["timestamp"], message["metadata"]["custom"]) == ("2026-02-23T10:30:00.000Z", {"page": "prices"})


@pytest.mark.parametrize("bond", ["owner", "paired", "linked"])
@pytest.mark.parametrize("end", ["deactivated", "deleted"])
def test_a_link_ends_with_its_user(
    rig: EngineRig, receiver: WebhookReceiver, settings: object, bond: str, end: str
) -> None:
    settings.KOMAND_PUBLIC_URL = "https://komand.example"  # type: ignore[attr-defined]
    user = User.objects.create_user("zoe")
    rig.agent(writing(), Reply(("Here it is.",)))
    account = add_webhook(receiver)
    webhook("a report, please", "m1")
    session = Session.objects.get()
    if bond == "owner":
        Session.objects.update(owner=user)
    elif bond == "paired":
        Pairing.objects.create(account=account, sender_id=session.sender_id, user=user)
    else:
        SenderLink.objects.create(account=account, sender_id=session.sender_id, user=user, linked_at=timezone.now())
    assert settle(rig) == ["sent"]
    path = receiver.messages[0].partition("https://komand.example")[2].rstrip(")")
    assert Client().get(path).status_code == 200
    if end == "deleted":
        user.delete()
    else:
        User.objects.update(is_active=False)
    assert Client().get(path).status_code == 403


def test_without_a_public_address_the_answer_names_the_file(rig: EngineRig, receiver: WebhookReceiver) -> None:
    rig.agent(writing(), Reply(("Here it is.",)))
    add_webhook(receiver)
    webhook("a report, please", "m1")
    settle(rig)
    assert receiver.messages == ["Here it is.\n\nFiles:\n\n- report.csv (3\xa0bytes): cannot be sent here"]


def test_only_links_of_this_installation_open_files(
    valkey: object, settings: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.KOMAND_PUBLIC_URL = "https://komand.example"  # type: ignore[attr-defined]
    link = file_links.make(uuid4(), uuid4())
    path = link.removeprefix("https://komand.example")
    assert [Client().get(one).status_code for one in (path, f"{path}x", "/channels/files/x")] == [403] * 3
    later = timezone.now() - timedelta(hours=25)
    monkeypatch.setattr("sessions_app.channels.file_links.timezone.now", lambda: later)
    old = file_links.make(uuid4(), uuid4()).removeprefix("https://komand.example")
    assert "expired" in Client().get(old).content.decode()
