"""Reports of platforms after a message was sent: delivered, read, failed; and new names of senders."""

import json
from typing import Any

import pytest

from agents_app.providers.kinds.scripted import Reply
from audit_app.models import AuditEntry
from sessions_app.models import ChannelAccount, Delivery, Pairing, Session
from tests.fakes.webhook_receiver import WebhookReceiver, signed_headers
from tests.support.channels import add_webhook, post, settle, webhook
from tests.support.engine import EngineRig

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


def report(kind: str, name: str = "r", **data: Any) -> tuple[int, Any]:
    body = json.dumps({"type": kind, "data": data}).encode()
    return post("/channels/webhook/crm/webhook", body, signed_headers(f"{name}-{kind.replace('.', '-')}", body))


def reported() -> tuple[str, str]:
    row = Delivery.objects.get()
    return row.status, row.report


@pytest.fixture
def sent(rig: EngineRig, receiver: WebhookReceiver) -> str:
    """Return the id under which an answer was sent."""
    rig.agent(Reply(("fine",)))
    add_webhook(receiver)
    webhook("how are you", "msg-1")
    assert settle(rig) == ["sent"]
    return Delivery.objects.get().provider_message_id


def test_a_report_is_shown_and_never_goes_back(sent: str) -> None:
    for kind, shown in (("delivered", "delivered"), ("read", "read"), ("delivered", "read"), ("failed", "read")):
        assert report(f"message.{kind}", messageId=sent)[0] == 202
        assert reported() == ("sent", shown)
    assert Delivery.objects.get().reported_at


def test_a_message_that_failed_after_it_was_sent_is_reported_once(sent: str) -> None:
    for name in ("a", "b"):
        assert report("message.failed", name, messageId=sent, error="number unknown")[0] == 202
    assert reported() == ("failed", "") and Delivery.objects.get().error == "number unknown"
    [entry] = AuditEntry.objects.filter(action="MessageFailed")
    assert entry.details["code"] == "failed" and "number unknown" in entry.details["message"]


def test_reports_that_fit_no_message_have_no_effect(sent: str) -> None:
    assert report("message.read", messageId="msg_another")[0] == 202
    Delivery.objects.update(account=ChannelAccount.objects.create(channel="webhook", account_id="other"))
    assert report("message.read", "s", messageId=sent)[0] == 202
    assert reported() == ("sent", "")
    status, body = report("message.read", "t", messageId=7)
    assert status == 422 and body["fields"] == {"data.messageId": "must be text"}


def test_a_new_name_is_stored_with_sessions_and_pairing(sent: str) -> None:
    account = ChannelAccount.objects.get()
    Pairing.objects.create(account=account, sender_id="u-42", sender_name="old")
    webhook("in a thread", "msg-2", conversationId="c-7")
    webhook("of another", "msg-3", sender="u-421")
    assert report("profile.updated", senderId="u-42", senderDisplayName="Zoë\u202e")[0] == 202
    names = dict(Session.objects.values_list("key", "sender_name"))
    assert names == {"Webhook:crm:u-42": "Zoë", "Webhook:crm:u-42:c-7": "Zoë", "Webhook:crm:u-421": ""}
    assert Pairing.objects.get().sender_name == "Zoë"
    assert report("profile.updated", "e", senderId="u-42", senderDisplayName="\u200b")[0] == 202
