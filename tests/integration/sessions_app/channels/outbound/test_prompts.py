"""Approval requests in chats: sent to the chat of the message, decided once by entitled senders, then replaced."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from agents_app import services as runs
from agents_app.models import Agent
from agents_app.providers.kinds.scripted import Reply
from audit_app.kernel.ids import new_id
from sessions_app.approvals import decisions, prompt_text
from sessions_app.channels.inbound import pairing_codes
from sessions_app.channels.outbound import prompts, retry_policy
from sessions_app.models import ChannelAccount, Delivery, InboundMessage, Pairing
from tests.fakes.http_server import Fault
from tests.fakes.telegram import BOT_ID, FakeTelegram, group_update, press_update, private_update
from tests.fakes.webhook_receiver import WebhookReceiver, signed_headers
from tests.support.approvals import Launch, asked, wants_to_launch
from tests.support.channels import add_telegram, add_webhook, all_settled, post, settle, telegram, webhook
from tests.support.engine import EngineRig, until
from tools_app.models import Approval, Grant, ToolExecution
from tools_app.registry import tools
from tools_app.types import Decision, ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]
APPROVERS = {"config": {"approvers": ["501"], "drafts": False}}


def pair(account: ChannelAccount, sender_id: str, *, first_name: str = "Zoë", is_superuser: bool = True) -> User:
    """Pair a sender with a new user."""
    user = User.objects.create_user(f"user{sender_id}", first_name=first_name, is_superuser=is_superuser)
    Pairing.objects.create(account=account, sender_id=sender_id, user=user)
    return user


@pytest.fixture(autouse=True)
def _launch(monkeypatch: pytest.MonkeyPatch, rig: EngineRig) -> Iterator[None]:
    monkeypatch.setattr(Launch, "launched", [])
    wants_to_launch(rig)
    with tools.override(Launch()):
        yield


def ask(platform: FakeTelegram, **options: Any) -> Approval:
    """Send a message that needs approval; return the request once its prompt is in the chat and stored as sent.

    Listed approvers are paired with users.
    """
    account = add_telegram(platform, **{**APPROVERS, **options})
    for sender_id in account.config.get("approvers", ()):
        pair(account, sender_id)
    telegram(private_update(1, "launch it"))
    until(lambda: platform.chat(501) and all_settled())
    return asked()


def press(number: int, data: str, platform: FakeTelegram, **options: Any) -> str:
    """Press a button; return the reply to the press."""
    assert telegram(press_update(number, data, **options)) == 200
    until(lambda: f"press-{number}" in platform.toasts)
    return platform.toasts[f"press-{number}"]


def test_the_prompt_shows_the_call_and_a_button_decides_it(rig: EngineRig, platform: FakeTelegram) -> None:
    approval = ask(platform)
    [question] = platform.chat(501)
    assert "launch" in question and "moon" in question and "high risk" in question
    buttons = platform.buttons(501)
    assert list(buttons) == ["Allow once", "Allow for this run", "Always allow", "Deny"]
    assert press(1, buttons["Allow once"], platform) == "Allowed once."
    until(lambda: platform.chat(501)[1:] == ["Over."] and "Allowed once by Zoë" in platform.chat(501)[0])
    assert not platform.buttons(501)
    approval.refresh_from_db()
    assert (approval.decision, approval.decided_by) == ("allow_once", f"user:{User.objects.get(first_name='Zoë').pk}")
    assert Launch.launched == ["moon"]


def test_an_approver_with_the_right_allows_a_call_for_ever(rig: EngineRig, platform: FakeTelegram) -> None:
    ask(platform)
    assert press(1, platform.buttons(501)["Always allow"], platform) == "Always allowed."
    assert Grant.objects.get().run_id is None


def test_a_denial_reaches_the_model_and_the_chat(rig: EngineRig, platform: FakeTelegram) -> None:
    ask(platform)
    assert press(1, platform.buttons(501)["Deny"], platform) == "Denied."
    until(lambda: platform.chat(501)[1:] == ["Over."] and "Denied by Zoë" in platform.chat(501)[0])
    assert Launch.launched == []


def test_a_second_click_names_the_first_decision(rig: EngineRig, platform: FakeTelegram) -> None:
    ask(platform)
    buttons = platform.buttons(501)
    press(1, buttons["Deny"], platform)
    assert press(2, buttons["Allow once"], platform) == "This was decided already. Denied by Zoë."
    assert Launch.launched == []


def test_a_repeated_update_decides_and_answers_once(rig: EngineRig, platform: FakeTelegram) -> None:
    ask(platform)
    update = press_update(1, platform.buttons(501)["Allow once"])
    assert [telegram(update), telegram(update)] == [200, 200]
    until(lambda: "Over." in platform.chat(501) and platform.toasts)
    settle(rig)
    assert platform.methods().count("answerCallbackQuery") == 1 and Launch.launched == ["moon"]


def test_a_decision_made_elsewhere_replaces_the_buttons(rig: EngineRig, platform: FakeTelegram) -> None:
    approval = ask(platform)
    admin = User.objects.create_superuser("ada", first_name="Ada")
    runs.decide_approval(approval.id, decision="deny", actor=f"user:{admin.pk}", note="not on a Sunday")
    until(lambda: not platform.buttons(501))
    assert "Denied by Ada" in platform.chat(501)[0] and "not on a Sunday" in platform.chat(501)[0]
    assert not Delivery.objects.filter(approval_id__isnull=False).exists()


@pytest.mark.parametrize(("status", "shown"), [("sent", 0), ("unknown", 1)])
def test_a_decision_while_the_prompt_is_sent_is_shown_afterwards(
    rig: EngineRig, platform: FakeTelegram, status: str, shown: int
) -> None:
    approval = ask(platform)
    prompt = Delivery.objects.filter(approval_id=approval.id)
    prompt.update(status="sending", owner=new_id())
    runs.decide_approval(approval.id, decision="deny", actor="user:1")
    prompts.sweep()
    assert prompt.get().status == "sending"
    prompt.update(status=status, owner=None, **({"provider_message_id": ""} if status == "unknown" else {}))
    until(lambda: any("Denied" in text for text in platform.chat(501)[shown:]))
    assert not prompt.exists()


def test_an_expired_request_is_shown_as_expired_and_refuses(rig: EngineRig, platform: FakeTelegram) -> None:
    ask(platform)
    button = platform.buttons(501)["Allow once"]
    Approval.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    until(lambda: "Nobody decided in time" in platform.chat(501)[0])
    assert "expired" in press(1, button, platform)
    assert Launch.launched == []


def test_in_a_group_only_the_entitled_are_obeyed(rig: EngineRig, platform: FakeTelegram) -> None:
    pair(add_telegram(platform, config={"approvers": ["900"], "drafts": False}), "900", is_superuser=False)
    telegram(group_update(7, "/approve@komand_test_bot nothing"))  # a group where nothing waits
    telegram(group_update(8, "@komand_test_bot go", entities=[{"type": "mention", "offset": 0, "length": 16}]))
    until(lambda: platform.buttons(-100777))
    button = platform.buttons(-100777)["Allow once"]
    refusal = press(1, button, platform, user=501, chat=-100777)
    assert "tools_app.change_approval" in refusal and refusal.endswith("Nothing was changed.")
    assert Approval.objects.get().status == "pending"
    assert press(2, button, platform, user=900, chat=-100777) == "Allowed once."
    assert InboundMessage.objects.filter(reason="not_entitled", sender_id="501").count() == 1


def test_the_sender_is_not_offered_what_would_hold_for_everybody(
    rig: EngineRig, platform: FakeTelegram, settings
) -> None:
    settings.KOMAND_APPROVERS = "owners"
    pair(add_telegram(platform, config={"drafts": False}), "501", is_superuser=False)
    telegram(private_update(1, "launch it"))
    until(lambda: platform.chat(501) and all_settled())
    assert list(platform.buttons(501)) == ["Allow once", "Allow for this run", "Deny"]
    assert "“Always” means" not in platform.chat(501)[0]


def test_a_group_without_deciders_gets_a_prompt_without_choices(
    rig: EngineRig, platform: FakeTelegram, settings
) -> None:
    settings.KOMAND_APPROVERS = "owners"  # a group is nobody's own
    add_telegram(platform, config={"drafts": False})
    telegram(group_update(8, "@komand_test_bot go", entities=[{"type": "mention", "offset": 0, "length": 16}]))
    until(lambda: platform.chat(-100777))
    assert "We are checking this and will answer here." in platform.chat(-100777)[0] and not platform.buttons(-100777)


def test_a_sender_who_may_not_decide_gets_a_prompt_without_choices(rig: EngineRig, platform: FakeTelegram) -> None:
    ask(platform, config={"drafts": False})
    assert "We are checking this and will answer here." in platform.chat(501)[0] and not platform.buttons(501)


@pytest.mark.parametrize("data", ["apr:!!!!:o", "apr:AAAAAAAAAAAAAAAAAAAAAA:o", "apr:", "apr:x:o:extra"])
def test_a_made_up_button_is_refused(rig: EngineRig, platform: FakeTelegram, data: str) -> None:
    ask(platform)
    assert press(1, data, platform) == "There is no such request in this chat."


def test_a_request_cannot_be_decided_from_another_chat(rig: EngineRig, platform: FakeTelegram) -> None:
    approval = ask(platform, config={"approvers": ["501", "900"], "drafts": False})
    stolen = prompt_text.action_id(approval.id, Decision.ALLOW_ONCE)
    assert press(1, stolen, platform, user=900) == "There is no such request in this chat."


def test_a_sender_who_was_paired_as_an_operator_decides_under_their_name(
    rig: EngineRig, platform: FakeTelegram
) -> None:
    ada = User.objects.create_superuser("ada", first_name="Ada")
    account = add_telegram(platform, config={"drafts": False}, access="paired")
    telegram(private_update(1, f"/pair {pairing_codes.make_code(account)}"))
    telegram(private_update(2, f"/pair {pairing_codes.make_code(account, ada)}"))  # links the user
    assert Pairing.objects.get().user == ada
    telegram(private_update(3, "launch it"))
    until(lambda: platform.buttons(501) and all_settled())
    press(1, platform.buttons(501)["Allow once"], platform)
    assert Approval.objects.get().decided_by == f"user:{ada.pk}"
    until(lambda: "Allowed once by Ada" in "".join(platform.chat(501)))


def test_commands_decide_where_there_are_no_buttons(rig: EngineRig, platform: FakeTelegram) -> None:
    approval = ask(platform)
    telegram(private_update(2, f"/deny {prompt_text.short_id(approval.id)} not on a Sunday"))
    until(lambda: "not on a Sunday" in platform.chat(501)[0])
    approval.refresh_from_db()
    assert (approval.status, approval.note) == ("denied", "not on a Sunday")


def test_the_only_request_needs_no_id(rig: EngineRig, platform: FakeTelegram) -> None:
    ask(platform)
    telegram(private_update(2, "/approve"))
    until(lambda: Launch.launched == ["moon"])


def test_a_command_that_names_nothing_lists_what_waits(rig: EngineRig, platform: FakeTelegram) -> None:
    approval = ask(platform)
    telegram(private_update(2, "/approve 0000dead"))
    until(lambda: len(platform.chat(501)) == 2)
    assert prompt_text.short_id(approval.id) in platform.chat(501)[1]
    assert Approval.objects.get().status == "pending"


def test_a_request_that_is_decided_before_its_prompt_is_sent_gets_none(
    rig: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry_policy, "_pause", lambda *args: 600.0)
    add_telegram(platform, **APPROVERS)
    platform.faults.append(Fault("status", 503, only="sendMessage"))
    telegram(private_update(1, "launch it"))
    until(lambda: Delivery.objects.filter(kind="approval", status="pending", error__contains="on demand").exists())
    runs.decide_approval(asked().id, decision="allow_once", actor="user:1")
    settle(rig, 2)
    assert platform.chat(501) == ["Over."]


def test_a_program_gets_the_buttons_as_data_and_presses_them(rig: EngineRig, receiver: WebhookReceiver) -> None:
    pair(add_webhook(receiver, config={"approvers": ["u-42"]}), "u-42")
    webhook("launch it", "msg-1")
    until(lambda: receiver.callbacks and all_settled())
    assert receiver.callbacks[0].body["type"] == "approval.requested"
    question = receiver.callbacks[0].body["data"]
    [button] = [button for button in question["buttons"] if button["label"] == "Allow once"]
    press = {"actionId": button["actionId"], "senderId": "u-42"}
    body = json.dumps({"type": "action.performed", "data": press}).encode()
    assert post("/channels/webhook/crm/webhook", body, signed_headers("press-1", body))[0] == 202
    until(lambda: "Over." in str(receiver.messages) and "Allowed once by" in str(receiver.messages))
    assert Launch.launched == ["moon"]


def test_an_anonymous_admin_does_not_own_what_is_asked_in_their_group(
    rig: EngineRig, platform: FakeTelegram, settings: Any
) -> None:
    settings.KOMAND_APPROVERS = "owners"
    add_telegram(platform, config={"drafts": False})
    telegram(group_update(1, "launch it", reply_to_message={"message_id": 1, "from": {"id": BOT_ID}}))
    until(lambda: platform.chat(-100777))
    anonymous = {"sender_chat": {"id": -100777, "title": "Team"}, "from": {"id": 1087968824, "is_bot": True}}
    telegram(group_update(2, "/approve", **anonymous))
    assert asked().status == "pending" and InboundMessage.objects.get(text="/approve").reason == "not_entitled"


def test_hundreds_of_requests_elsewhere_hold_up_no_prompt(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(tool_calls=(ToolCall("c", "launch", '{"target": "moon"}'),)))
    rig.send("launch it")
    many(asked(), 600)
    ask(platform)
    assert "launch" in platform.chat(501)[0]


def many(approval: Approval, count: int) -> None:
    """Add that many more requests like it, which expire sooner."""
    execution, expires_at = _fields(approval.execution), approval.expires_at - timedelta(minutes=1)
    calls = [ToolExecution(**{**execution, "id": new_id(), "call_index": 1 + number}) for number in range(count)]
    fields = {**_fields(approval), "expires_at": expires_at}
    ToolExecution.objects.bulk_create(calls)
    Approval.objects.bulk_create([Approval(**{**fields, "id": new_id(), "execution_id": call.id}) for call in calls])


def _fields(row: Any) -> dict[str, Any]:
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}


def test_two_people_decide_and_the_requester_is_none_of_them(rig: EngineRig, platform: FakeTelegram) -> None:
    Agent.objects.update(needs_two_approvers=True)
    approval = ask(platform)
    [question] = platform.chat(501)
    assert "Two people must allow" in question
    buttons = platform.buttons(501)
    assert list(buttons) == ["Allow once", "Deny"]
    assert "two other people" in press(1, buttons["Allow once"], platform)
    for name in ("ada", "grace"):
        user = User.objects.create_superuser(name)
        decisions.decide(approval.pk, decision="allow_once", actor=f"user:{user.pk}", has_fresh_login=True)
    until(lambda: platform.chat(501)[1:] == ["Over."] and "Allowed once by ada and grace" in platform.chat(501)[0])
    assert Launch.launched == ["moon"]
