"""Answers in several messages: texts of recorded steps go out early, the answer leaves them out."""

from dataclasses import replace
from typing import Any

import pytest

from agents_app.providers.kinds.scripted import Reply
from audit_app.models import AuditEntry
from sessions_app.channels.outbound import outbox
from sessions_app.models import Delivery, InboundMessage, Session
from sessions_app.platforms.adapters.telegram.adapter import Telegram
from tests.fakes.telegram import FakeTelegram, private_update
from tests.support.channels import add_telegram, in_steps, settle, telegram
from tests.support.engine import EngineRig, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


@pytest.fixture(autouse=True)
def multi(monkeypatch: pytest.MonkeyPatch) -> None:
    capabilities = Telegram.capabilities

    def changed(*args: Any) -> Any:
        return replace(capabilities(*args), drafts="multi_message")

    monkeypatch.setattr(Telegram, "capabilities", changed)


def test_the_text_before_tool_calls_goes_out_early_and_once(rig: EngineRig, platform: FakeTelegram) -> None:
    replies, held = in_steps("Let me look.", "Nearly there.", "Found it.")
    rig.agent(*replies)
    add_telegram(platform)
    telegram(private_update(1, "hi"))
    held[0].set()
    until(lambda: platform.chat(501) == ["Let me look."])
    held[1].set()
    until(lambda: platform.chat(501) == ["Let me look.", "Nearly there."])
    assert not AuditEntry.objects.filter(action="MessageSent").exists(), "the answer is not sent yet"
    held[2].set()
    assert settle(rig, 3) == ["sent"] * 3
    assert platform.chat(501) == ["Let me look.", "Nearly there.", "Found it."]
    assert AuditEntry.objects.filter(action="MessageSent").count() == 1


def test_a_text_that_comes_after_the_answer_was_stored_is_not_sent_twice(
    rig: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, late = outbox.plan_step, list[Any]()
    monkeypatch.setattr(outbox, "plan_step", lambda *args: late.append(args))
    replies, held = in_steps("Let me look.", "Found it.")
    rig.agent(*replies)
    add_telegram(platform)
    telegram(private_update(1, "hi"))
    for event in held:
        event.set()
    assert settle(rig) == ["sent"] and platform.chat(501) == ["Let me look.\n\nFound it."]
    for args in late:
        plan(*args)
    assert Delivery.objects.count() == 1


def test_a_step_that_was_refused_is_part_of_the_answer(rig: EngineRig, platform: FakeTelegram) -> None:
    replies, held = in_steps("Let me look.", "Found it.")
    rig.agent(*replies)
    add_telegram(platform)
    telegram(private_update(1, "hi"))
    held[0].set()
    step = until(lambda: Delivery.objects.filter(kind="step", status="sent").first())
    Delivery.objects.filter(pk=step.pk).update(status="failed", sent_at=None)
    held[1].set()
    settle(rig, 2)
    assert platform.chat(501)[-1] == "Let me look.\n\nFound it."
    assert InboundMessage.objects.count() == Session.objects.count() == 1


@pytest.mark.parametrize("address", ["https://komand.example", ""])
def test_a_page_of_the_installation_is_named_by_its_address(
    rig: EngineRig, platform: FakeTelegram, settings: Any, address: str
) -> None:
    settings.KOMAND_PUBLIC_URL = address
    rig.agent(Reply(("Take [the tour](/tour).",)))
    add_telegram(platform)
    telegram(private_update(1, "hi"))
    assert settle(rig) == ["sent"]
    row = Delivery.objects.get()
    assert row.text.startswith("Take the tour") and ("https://komand.example/tour" in row.body) is bool(address)
