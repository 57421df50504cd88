"""From a platform's webhook through a run and back to the platform: once, in order, with previews."""

import pytest

from agents_app.providers.kinds.scripted import Reply
from audit_app.models import AuditEntry
from sessions_app.models import Delivery, InboundMessage, Session, Turn
from tests.fakes.telegram import FakeTelegram, group_update, private_update
from tests.fakes.webhook_receiver import WebhookReceiver
from tests.support.channels import add_telegram, add_webhook, in_steps, settle, telegram, webhook
from tests.support.engine import EngineRig, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


def test_a_private_message_is_answered_once(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(("Hello **Zoë**",)))
    add_telegram(platform)
    assert telegram(private_update(1, "hi")) == 200
    assert settle(rig) == ["sent"]
    assert platform.chat(501) == ["Hello <b>Zoë</b>"]
    assert str(Session.objects.get().key) == "Telegram:main:501"
    message = InboundMessage.objects.get()
    assert message.metadata["telegramChatId"] == "501" and message.run_id and not message.reason
    actions = list(AuditEntry.objects.order_by("id").values_list("action", flat=True))
    assert actions.count("MessageSent") == 1 and "MessageReceived" in actions


def test_messages_of_one_chat_are_answered_in_order(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(*[Reply((f"answer {number}",)) for number in range(5)])
    add_telegram(platform)
    for number in range(5):
        telegram(private_update(number, f"question {number}"))
    assert settle(rig, 5) == ["sent"] * 5
    assert platform.chat(501) == [f"answer {number}" for number in range(5)]


def test_in_a_group_one_message_is_edited_until_it_holds_the_answer(rig: EngineRig, platform: FakeTelegram) -> None:
    replies, held = in_steps("Let me look.", "And once more.", "Found it.")
    rig.agent(*replies)
    add_telegram(platform, config={"chat_seconds": 0.1})
    telegram(group_update(7, "@komand_test_bot tell", entities=[{"type": "mention", "offset": 0, "length": 16}]))
    for begun, shown in zip(("Let me", "And once", "Found"), held, strict=True):
        until(lambda begun=begun: platform.chat(-100777) and platform.chat(-100777)[0].endswith(begun))
        shown.set()
    assert settle(rig) == ["sent"]
    assert platform.chat(-100777) == ["Let me look.\n\nAnd once more.\n\nFound it."]
    assert platform.methods().count("sendMessage") == 1 and platform.methods().count("editMessageText") >= 3
    assert Turn.objects.get(role="user").content == "tell"


def test_a_webhook_is_answered_by_a_signed_callback(rig: EngineRig, receiver: WebhookReceiver) -> None:
    rig.agent(Reply(("fine",)))
    add_webhook(receiver)
    status, body = webhook("how are you", "msg-1", conversationId="c-7")
    assert (status, body) == (202, {"id": "msg-1"})
    assert settle(rig) == ["sent"]
    [callback] = receiver.callbacks
    assert callback.is_signed and callback.body["type"] == "message.created"
    assert callback.body["data"]["text"] == "fine" and callback.body["data"]["conversationId"] == "c-7"
    assert callback.body["data"]["inReplyTo"] == "msg-1"
    assert Session.objects.get().key == "Webhook:crm:u-42:c-7"


def test_a_failed_run_is_reported(rig: EngineRig, receiver: WebhookReceiver) -> None:
    rig.agent(Reply(("half",), error="model_error", retryable=False))
    add_webhook(receiver)
    webhook("how are you", "msg-1")
    settle(rig)
    assert receiver.callbacks[0].body["type"] == "run.failed"
    assert "half" in receiver.callbacks[0].body["data"]["text"]


def test_a_long_answer_goes_out_in_parts_in_order(rig: EngineRig, platform: FakeTelegram) -> None:
    text = "\n\n".join(f"Paragraph {number}. " + "word " * 150 for number in range(12))
    rig.agent(Reply((text,)))
    add_telegram(platform)
    telegram(private_update(1, "hi"))
    until(lambda: Delivery.objects.count() >= 3)
    assert set(settle(rig)) == {"sent"}
    shown = "\n\n".join(platform.chat(501))
    assert shown.split() == text.split()
