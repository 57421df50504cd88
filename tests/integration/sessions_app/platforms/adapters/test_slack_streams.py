"""Streamed answers in Slack, their fallback to edits, and the names of senders."""

from collections.abc import Iterator
from typing import Any

import pytest

from agents_app.providers.kinds.scripted import Reply
from sessions_app.models import ChannelAccount, InboundMessage, Session
from sessions_app.platforms.adapters.slack.streams import Streams
from tests.fakes.slack import FakeSlack, message_payload
from tests.support.channels import in_steps, settle
from tests.support.engine import EngineRig, until
from tests.support.slack import add, deliver

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

PIECES = tuple(f"piece {number} " for number in range(12))
WHOLE = "".join(PIECES).strip()


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    with FakeSlack() as server:
        yield server


def mention(number: int = 1) -> dict[str, Any]:
    return message_payload(number, "<@UBOT> hi", channel="C1")


def methods(slack: FakeSlack) -> list[str]:
    return [method for method, _ in slack.calls if method.startswith("chat.")]


def test_an_answer_in_a_thread_is_streamed_with_its_tool_calls(rig: EngineRig, slack: FakeSlack) -> None:
    replies, held = in_steps("One moment.", "Done **now**.")
    held[0].set()
    rig.agent(*replies)
    add(slack)
    assert deliver(mention()) == 200
    until(lambda: slack.tasks)
    assert slack.streaming and slack.shown("C1")[0].startswith("One moment.")
    held[1].set()
    assert settle(rig) == ["sent"]
    assert slack.shown("C1") == ["One moment.\n\nDone **now**."] and not slack.streaming
    [tasks] = slack.tasks.values()
    assert tasks == {"echo": "complete"}
    assert set(slack.threads.values()) == {"1780000001.000100"}
    assert {"chat.postMessage", "chat.update"}.isdisjoint(methods(slack)) and methods(slack).count(
        "chat.stopStream"
    ) == 1
    [started] = [fields for method, fields in slack.calls if method == "chat.startStream"]
    assert (started["recipient_user_id"], started["recipient_team_id"]) == ("501", "T1")


def test_where_slack_streams_nothing_the_message_is_edited(rig: EngineRig, slack: FakeSlack) -> None:
    rig.agent(Reply(PIECES, delay_seconds=0.03), Reply(PIECES, delay_seconds=0.03))
    slack.no_streams = True
    add(slack)
    for number in (1, 2):
        deliver(mention(number))
        settle(rig, number)
    assert slack.shown("C1") == [WHOLE] * 2
    assert methods(slack).count("chat.startStream") == 1, "the refusal is remembered"
    assert methods(slack).count("chat.postMessage") == 2 and "chat.stopStream" not in methods(slack)


def test_a_stream_that_slack_ended_is_replaced_by_the_answer(rig: EngineRig, slack: FakeSlack) -> None:
    replies, held = in_steps(WHOLE)
    rig.agent(*replies)
    add(slack)
    deliver(mention())
    until(lambda: slack.streaming)
    slack.streaming.clear()
    held[0].set()
    assert settle(rig) == ["sent"] and slack.shown("C1") == [WHOLE]
    assert "chat.postMessage" not in methods(slack)


def test_an_answer_of_another_process_ends_the_stream(
    rig: EngineRig, slack: FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Streams, "_keep", lambda *args: None)
    replies, held = in_steps(WHOLE)
    rig.agent(*replies)
    add(slack)
    deliver(mention())
    until(lambda: slack.streaming)
    held[0].set()
    assert settle(rig) == ["sent"] and slack.shown("C1") == [WHOLE]
    assert not slack.streaming and methods(slack)[-2:] == ["chat.stopStream", "chat.update"]


def test_a_conversation_without_a_thread_is_edited(rig: EngineRig, slack: FakeSlack) -> None:
    rig.agent(Reply(PIECES, delay_seconds=0.03))
    add(slack)
    deliver(message_payload(1, "hi"))
    assert settle(rig) == ["sent"] and slack.shown() == [WHOLE] and "chat.startStream" not in methods(slack)


def test_the_name_of_a_sender_is_looked_up_once(rig: EngineRig, slack: FakeSlack) -> None:
    rig.agent(Reply(("one",)), Reply(("two",)))
    slack.users["501"] = "Zoë"
    add(slack)
    for number in (1, 2):
        deliver(message_payload(number, "hi"))
        settle(rig, number)
        until(lambda: not InboundMessage.objects.filter(sender_name="").exists())
    assert Session.objects.get().sender_name == "Zoë"
    assert [fields for method, fields in slack.calls if method == "users.info"] == [{"user": "501"}]
    assert not ChannelAccount.objects.get().last_error
