"""Unfinished answers: typing, native previews, edited messages; none of them endangers the answer."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from agents_app.services import cancel_run
from audit_app.models import AuditEntry
from sessions_app.channels.outbound import drafts, transitions
from sessions_app.channels.outbound.preview import Preview
from sessions_app.models import Delivery
from sessions_app.platforms.adapters.telegram.adapter import Telegram
from tests.fakes.http_server import Fault
from tests.fakes.telegram import FakeTelegram, group_update, private_update
from tests.fakes.webhook_receiver import WebhookReceiver
from tests.support.channels import add_telegram, add_webhook, settle, telegram, webhook
from tests.support.engine import EngineRig, until
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

PIECES = tuple(f"piece {number} " for number in range(20))
WHOLE = "".join(PIECES).strip()
SLOW = Reply(PIECES, delay_seconds=0.06)
BEGUN = "".join(PIECES[:-1]).strip()
REPLY = {"reply_to_message": {"message_id": 1, "from": {"id": 123456789}}}
QUICK = {"chat_seconds": 0.1}


@pytest.fixture
def may_end() -> Iterator[threading.Event]:
    """An event that holds back the last piece of an answer."""
    event = threading.Event()
    yield event
    event.set()


def held(by: threading.Event) -> Reply:
    return replace(SLOW, delay_seconds=0.0, held_by=by)


def test_a_private_chat_sees_typing_then_previews_then_the_answer(
    rig: EngineRig, platform: FakeTelegram, may_end: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    capabilities = Telegram.capabilities
    again = {"draft_keep_seconds": 0.1}  # before what it shows vanishes
    monkeypatch.setattr(Telegram, "capabilities", lambda *args: replace(capabilities(*args), **again))
    rig.agent(held(may_end))
    add_telegram(platform)
    telegram(private_update(1, "a"))
    until(lambda: previews_in(platform, 501).count(BEGUN) >= 2)
    may_end.set()
    assert settle(rig) == ["sent"]
    drafts = [call.fields for call in platform.calls if call.method == "sendMessageDraft"]
    assert len({draft["draft_id"] for draft in drafts}) == 1 and drafts[0]["draft_id"] > 0
    assert all(WHOLE.startswith(draft["text"]) for draft in drafts)
    assert platform.methods()[-1] == "sendMessage" and platform.chat(501) == [WHOLE]


def test_typing_shows_while_the_agent_is_silent(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply((), hangs=True))
    add_telegram(platform)
    telegram(private_update(1, "a"))
    until(lambda: "sendChatAction" in platform.methods())
    cancel_run(Run.objects.get().id)
    rig.wait(Run.objects.get().id)
    assert platform.chat(501) == [] and not Delivery.objects.exists()


def test_text_before_a_tool_call_stays(rig: EngineRig, platform: FakeTelegram) -> None:
    call = ToolCall("c1", "echo", '{"text": "x"}')
    rig.agent(Reply(("Let me look. ",), tool_calls=(call,)), Reply(("Found it.",), delay_seconds=0.3))
    add_telegram(platform, config=QUICK)
    telegram(group_update(1, "a", **REPLY))
    assert settle(rig) == ["sent"]
    assert platform.chat(-100777) == ["Let me look.\n\nFound it."]


def test_a_preview_that_is_throttled_or_fails_costs_nothing(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(SLOW)
    add_telegram(platform, config=QUICK)
    platform.throttle(1, only="editMessageText")
    telegram(group_update(1, "a", **REPLY))
    assert settle(rig) == ["sent"] and platform.chat(-100777) == [WHOLE]


def test_a_preview_waits_for_the_answer_before_it(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(("First.",)), SLOW)
    add_telegram(platform, config=QUICK)
    platform.faults.append(Fault("status", 500, only="sendMessage"))
    telegram(group_update(1, "a", **REPLY))
    telegram(group_update(2, "b", **REPLY))
    assert settle(rig, 2) == ["sent", "sent"]
    assert platform.chat(-100777) == ["First.", WHOLE]


def test_when_previews_are_refused_the_answer_comes_as_a_message(
    rig: EngineRig, platform: FakeTelegram, may_end: threading.Event
) -> None:
    rig.agent(held(may_end))
    add_telegram(platform)
    platform.faults.append(Fault("status", 400, only="sendMessageDraft", description="Bad Request: no drafts here"))
    telegram(private_update(1, "a"))
    until(lambda: not platform.faults)
    may_end.set()
    assert settle(rig) == ["sent"] and platform.chat(501) == [WHOLE]
    assert "sendMessageDraft" not in platform.methods()


def test_a_preview_that_was_deleted_is_sent_anew(
    rig: EngineRig, platform: FakeTelegram, may_end: threading.Event
) -> None:
    rig.agent(held(may_end))
    add_telegram(platform, config=QUICK)
    telegram(group_update(1, "a", **REPLY))
    until(lambda: platform.chat(-100777))
    platform.messages[-100777].clear()
    may_end.set()
    assert settle(rig) == ["sent"] and platform.chat(-100777) == [WHOLE]


def test_a_preview_in_doubt_leaves_a_whole_answer(
    rig: EngineRig, platform: FakeTelegram, may_end: threading.Event
) -> None:
    rig.agent(held(may_end))
    add_telegram(platform, config=QUICK)
    platform.faults.append(Fault("accept_and_drop", only="sendMessage"))
    telegram(group_update(1, "a", **REPLY))
    until(lambda: not platform.faults)
    may_end.set()
    assert settle(rig) == ["sent"]
    assert platform.chat(-100777)[-1] == WHOLE


def test_a_stopped_answer_keeps_what_was_shown(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(("Once upon a time ",), hangs=True))
    add_telegram(platform, config=QUICK)
    telegram(group_update(1, "a", **REPLY))
    until(lambda: platform.chat(-100777))
    telegram(group_update(2, "/stop"))
    assert settle(rig, 2) == ["sent", "sent"]
    assert platform.chat(-100777) == ["Once upon a time", "Stopped."]


def test_an_engine_that_stops_lets_another_go_on_with_the_same_message(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(("Begun ",), hangs=True), Reply(("Begun and done",)))
    add_telegram(platform, config=QUICK)
    telegram(group_update(1, "a", **REPLY))
    until(lambda: platform.chat(-100777) and Delivery.objects.filter(provider_message_id__gt="").exists())
    assert rig.engine
    rig.engine.stop()
    assert Delivery.objects.get().owner is None
    rig.start()
    rig.engine.nudge(Run.objects.get().id)
    assert settle(rig) == ["sent"]
    assert platform.chat(-100777) == ["Begun and done"]


def test_long_answers_are_previewed_by_their_first_part_where_they_stay(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(tuple("word " * 200 for _ in range(10)), delay_seconds=0.1))
    add_telegram(platform, config=QUICK)
    telegram(group_update(1, "a", **REPLY))
    assert set(settle(rig, 3)) == {"sent"}
    assert " ".join(platform.chat(-100777)).split() == ["word"] * 2000


def test_a_program_may_ask_for_deltas(rig: EngineRig, receiver: WebhookReceiver, may_end: threading.Event) -> None:
    rig.agent(held(may_end))
    add_webhook(receiver, config={"deltas": True})
    webhook("a", "m1")
    until(lambda: receiver.callbacks)
    may_end.set()
    assert settle(rig) == ["sent"]
    kinds = [callback.body["type"] for callback in receiver.callbacks]
    assert kinds[-1] == "message.created" and set(kinds[:-1]) == {"message.delta"}
    assert len({callback.id for callback in receiver.callbacks}) == len(kinds)


def test_a_preview_by_a_process_that_stood_still_does_not_outlive_the_answer(
    rig: EngineRig, platform: FakeTelegram, may_end: threading.Event
) -> None:
    rig.agent(Reply(("Begun ", "and done"), held_by=may_end))
    add_telegram(platform, config=QUICK)
    telegram(group_update(1, "a", **REPLY))
    until(lambda: Delivery.objects.filter(provider_message_id__gt="").exists())
    stopped = Delivery.objects.get().owner
    Delivery.objects.update(owner=None)  # as the reaper does
    may_end.set()
    assert settle(rig) == ["sent"]
    [shown] = platform.messages[-100777]
    platform.messages[-100777][shown] = "Begun"  # what it still had to say
    transitions.release_draft(Delivery.objects.get().dedupe_key, stopped, str(shown))
    until(lambda: platform.chat(-100777) == ["Begun and done"])
    assert AuditEntry.objects.filter(action="MessageSent").count() == 1


ASK = ToolCall("c", "ask_user", '{"question": "Which colour?"}')


@pytest.fixture
def previews(monkeypatch: pytest.MonkeyPatch) -> list[Preview]:
    """Return a list to which each new preview is added."""
    made: list[Preview] = []

    class Noted(Preview):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(drafts, "Preview", Noted)
    return made


def wait_parked(previews: list[Preview], count: int) -> None:
    """Wait until so many runs are parked for a person, and their previews, which follow later, know it."""
    parked = Run.objects.filter(waiting_on="input", owner=None)
    until(lambda: parked.count() == sum(preview.text.waits_for_person for preview in previews) == count)


def ask(previews: list[Preview], *users: int) -> None:
    """Let a run wait for each of these senders."""
    for count, user in enumerate(users, start=1):
        telegram(private_update(user, "a", user=user))
        wait_parked(previews, count)


def previews_in(platform: FakeTelegram, chat: int) -> list[str]:
    calls = [call.fields for call in platform.calls if call.method == "sendMessageDraft"]
    return [fields["text"] for fields in calls if fields["chat_id"] == chat]


def test_runs_that_wait_for_people_take_no_preview_from_others(
    rig: EngineRig, platform: FakeTelegram, previews: list[Preview], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafts, "_MOST_RUNS", 3)
    monkeypatch.setattr(drafts, "_MOST_PARKED", 1)
    rig.agent(*[Reply(tool_calls=(ASK,))] * 4, Reply(("Begun ",), hangs=True))
    add_telegram(platform)
    ask(previews, 1, 2, 3, 4)
    telegram(private_update(5, "a", user=5))
    until(lambda: previews_in(platform, 5))


def test_a_run_that_goes_on_after_its_person_answered_is_shown_again(
    rig: EngineRig,
    platform: FakeTelegram,
    previews: list[Preview],
    may_end: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drafts, "_MOST_PARKED", 0)
    rig.agent(*[Reply(tool_calls=(ASK,))] * 2, Reply(("Begun ", "and done"), held_by=may_end))
    add_telegram(platform)
    ask(previews, 1, 2)
    telegram(private_update(11, "red", user=1))
    until(lambda: previews_in(platform, 1) == ["Begun"])
    may_end.set()
    until(lambda: "Begun and done" in platform.chat(1))


def test_a_preview_that_was_let_go_while_its_run_waited_becomes_the_answer(
    rig: EngineRig,
    platform: FakeTelegram,
    previews: list[Preview],
    may_end: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drafts, "_MOST_PARKED", 0)
    asking = Reply(("Let me ", "ask."), tool_calls=(ASK,), held_by=may_end)
    rig.agent(asking, Reply(tool_calls=(ASK,)), Reply(("Painted.",)))
    add_telegram(platform, config=QUICK)
    telegram(group_update(1, "a", **REPLY))
    until(lambda: Delivery.objects.filter(status="draft", provider_message_id__gt="").exists())
    may_end.set()
    wait_parked(previews, 1)
    telegram(private_update(2, "b", user=2))
    until(lambda: Delivery.objects.get(status="draft").owner is None and len(platform.chat(-100777)) == 2)
    telegram(group_update(3, "red", **REPLY))
    until(lambda: platform.chat(-100777) == ["Let me ask.\n\nPainted.", "Which colour?"])
