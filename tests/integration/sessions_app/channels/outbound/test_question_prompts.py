"""A question of an agent in a chat: sent once to the chat of the message, and answered by the next message."""

import json

import pytest
from django.db import transaction

from agents_app import services as runs
from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from agents_app.types import RunStatus
from sessions_app.channels.outbound import question_prompts
from sessions_app.models import Delivery, Turn
from tests.fakes.telegram import FakeTelegram, press_update, private_update
from tests.fakes.webhook_receiver import WebhookReceiver, signed_headers
from tests.support.channels import add_telegram, add_webhook, post, settle, telegram, webhook
from tests.support.engine import EngineRig, until
from tools_app.models import InputRequest
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

ASK = ToolCall("c", "ask_user", json.dumps({"question": "Which colour?", "options": ["Red", "Blue"]}))


def test_it_is_asked_once_and_answered_by_number(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(tool_calls=(ASK,)), Reply(("Painted.",)))
    add_telegram(platform)
    telegram(private_update(1, "paint it"))
    until(lambda: platform.chat(501))
    question_prompts.sweep()
    question_prompts.sweep()
    assert platform.chat(501) == ["Which colour?\n\n1. Red\n2. Blue"]
    telegram(private_update(2, "2"))
    run = Run.objects.get()
    (execution,) = rig.wait(run.pk).executions
    assert json.loads(execution.output or "")["answer"] == "Blue"
    until(lambda: len(platform.chat(501)) == 2)
    assert platform.chat(501)[1] == "Painted."


def test_stop_ends_a_run_that_asks(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(tool_calls=(ASK,)), Reply(("Painted.",)))
    add_telegram(platform)
    telegram(private_update(1, "paint it"))
    until(lambda: platform.chat(501))
    telegram(private_update(2, "/stop"))
    assert rig.wait(Run.objects.get().pk).run.status is RunStatus.CANCELLED
    assert Delivery.objects.filter(dedupe_key__startswith="question:").count() == 1


def wait_for_question(platform: FakeTelegram) -> dict[str, str]:
    """Let the run ask in the chat, and return the buttons below the question: their actions by label."""
    telegram(private_update(1, "paint it"))
    until(lambda: platform.chat(501))
    return platform.buttons(501)


def test_a_pressed_option_is_the_answer(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(tool_calls=(ASK,)), Reply(("Painted.",)))
    add_telegram(platform)
    buttons = wait_for_question(platform)
    assert list(buttons) == ["Red", "Blue"]
    telegram(press_update(2, buttons["Blue"]))
    telegram(press_update(2, buttons["Blue"]))
    (execution,) = rig.wait(Run.objects.get().pk).executions
    assert json.loads(execution.output or "") == {"answer": "Blue", "is_option": True}
    turns = Turn.objects.filter(role="user").order_by("id").values_list("content", flat=True)
    assert list(turns) == ["paint it", "Blue"]
    until(lambda: "Painted." in platform.chat(501))
    until(lambda: platform.toasts)
    assert [*platform.toasts.values()] == ["Blue"]


def test_the_answer_replaces_the_buttons_wherever_it_was_given(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(tool_calls=(ASK,)), Reply(("Painted.",)))
    add_telegram(platform)
    wait_for_question(platform)
    question_prompts.sweep()
    assert platform.buttons(501), "the question is open"
    run = Run.objects.get()
    with transaction.atomic():
        runs.answer_input(run.pk, "Blue", actor="user:1")
    until(lambda: not platform.buttons(501))
    assert platform.chat(501)[0] == "Which colour?\n\n→ Blue"
    question_prompts.sweep()
    assert not Delivery.objects.filter(question_id__isnull=False).exists()
    rig.wait(run.pk)
    until(lambda: platform.chat(501)[1:] == ["Painted."])


def test_the_buttons_go_with_the_question(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(tool_calls=(ASK,)))
    add_telegram(platform)
    wait_for_question(platform)
    telegram(private_update(2, "/stop"))
    until(lambda: not platform.buttons(501))
    assert platform.chat(501)[0].endswith("\n\nThe answer is not needed any more.")


def test_a_chat_without_edits_gets_no_second_message(rig: EngineRig, receiver: WebhookReceiver) -> None:
    rig.agent(Reply(tool_calls=(ASK,)), Reply(("Painted.",)))
    add_webhook(receiver)
    webhook("paint it", "m1")
    until(lambda: Delivery.objects.filter(question_id__isnull=False, status="sent").exists())
    webhook("Blue", "m2")
    rig.wait(Run.objects.get().pk)
    until(lambda: not Delivery.objects.filter(question_id__isnull=False).exists())
    settle(rig, 2)
    assert [row.text for row in Delivery.objects.order_by("id")][1:] == ["Painted."]


def test_a_program_presses_an_option_under_a_long_id(rig: EngineRig, receiver: WebhookReceiver) -> None:
    rig.agent(Reply(tool_calls=(ASK,)), Reply(("Painted.",)))
    add_webhook(receiver)
    webhook("paint it", "m1")
    question = until(lambda: Delivery.objects.filter(question_id__isnull=False, status="sent").first())
    press = {"type": "action.performed", "data": {"senderId": "u-42", "actionId": question.buttons[1][1]}}
    for _ in range(2):
        body = json.dumps(press).encode()
        assert post("/channels/webhook/crm/webhook", body, signed_headers("p" * 300, body))[0] == 202
    rig.wait(Run.objects.get().pk)
    keys = list(Delivery.objects.filter(kind="press").values_list("dedupe_key", flat=True))
    assert len(keys) == 1 and len(keys[0]) <= Delivery._meta.get_field("dedupe_key").max_length


def test_a_button_of_an_answered_question_does_nothing(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(tool_calls=(ASK,)), Reply(("Painted.",)))
    add_telegram(platform)
    buttons = wait_for_question(platform)
    telegram(private_update(2, "Red"))
    rig.wait(Run.objects.get().pk)
    telegram(press_update(3, buttons["Blue"]))
    until(lambda: platform.toasts)
    assert [*platform.toasts.values()] == ["This button is no longer active."]
    assert Run.objects.count() == 1 and Turn.objects.filter(role="user").count() == 2


def test_a_button_works_only_in_the_chat_in_which_it_was_shown(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(tool_calls=(ASK,)), Reply(("Painted.",)))
    add_telegram(platform)
    buttons = wait_for_question(platform)
    telegram(press_update(2, buttons["Blue"], user=777))
    until(lambda: platform.toasts)
    assert InputRequest.objects.get().status == "pending"
    telegram(private_update(3, "/stop"))
    rig.wait(Run.objects.get().pk)


def test_a_form_is_sent_as_text_and_answered_by_lines(rig: EngineRig, platform: FakeTelegram) -> None:
    form = [{"question": "Which?", "options": ["Red", "Blue"], "multiple": True}, {"question": "Why?"}]
    rig.agent(Reply(tool_calls=(ToolCall("c", "ask_form", json.dumps({"questions": form})),)), Reply(("Painted.",)))
    add_telegram(platform)
    assert wait_for_question(platform) == {}
    assert "one line for each question" in platform.chat(501)[0]
    telegram(private_update(2, "1, 2\nBoth"))
    (execution,) = rig.wait(Run.objects.get().pk).executions
    answers = json.loads(execution.output or "")["answers"]
    assert [each["answer"] for each in answers] == ["Red, Blue", "Both"]
