"""A question of an agent in a chat: sent once to the chat of the message, and answered by the next message."""

import json

import pytest

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from agents_app.types import RunStatus
from sessions_app.channels.outbound import question_prompts
from sessions_app.models import Delivery
from tests.fakes.telegram import FakeTelegram, private_update
from tests.support.channels import add_telegram, telegram
from tests.support.engine import EngineRig, until
from tools_app.types import ToolCall

pytestmark = pytest.mark.django_db(transaction=True)

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
