"""The hub's records and what it tells of a run."""

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit_app.kernel.errors import InvalidInput
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.signalr import protocol
from sessions_app.surfaces.signalr.projection import HubProjection, message_of
from tools_app.types import Decision

RUN, SESSION, CALL = UUID(int=1), UUID(int=2), UUID(int=3)
KEY = "WebChat:default:1"


def fact(kind: str, step: int | None = None, **payload: Any) -> SessionEvent:
    return SessionEvent(kind, SESSION, RUN, step, payload, "3.1-2")


@given(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=3), max_size=5), st.data())
def test_records_are_read_whatever_pieces_they_come_in(records: list[dict[str, str]], data: st.DataObject) -> None:
    text = protocol.frame(*records)
    cut = data.draw(st.integers(0, len(text)))
    reader = protocol.RecordReader()
    assert [*reader.feed(text[:cut]), *reader.feed(text[cut:])] == records


def test_a_frame_ends_with_the_separator() -> None:
    assert protocol.frame(protocol.ping(), protocol.close()) == '{"type":6}\x1e{"type":7}\x1e'


@pytest.mark.parametrize("text", ["x\x1e", "[]\x1e", "[" * 100_000 + "\x1e", "x" * 300_000])
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        protocol.RecordReader().feed(text)


@pytest.mark.parametrize(
    ("record", "is_fine"),
    [
        ({"protocol": "json", "version": 1}, True),
        ({"protocol": "messagepack", "version": 1}, False),
        ({"protocol": "json", "version": 9}, False),
        ({}, False),
    ],
)
def test_only_json_is_spoken(record: dict[str, Any], is_fine: bool) -> None:
    assert (protocol.check_handshake(record) == "") is is_fine


def test_completions_have_a_result_or_an_error() -> None:
    assert json.loads(protocol.frame(protocol.completion("0"))[:-1]) == {"type": 3, "invocationId": "0", "result": None}
    assert "result" not in protocol.completion("0", error="no")


def test_an_answer_is_told_in_the_order_of_the_source() -> None:
    projection = HubProjection(KEY, "default")
    told: list[Any] = []
    for each in (
        fact("run.queued", agent_id="writer", ordinal=0),
        fact("run.started", agent_id="writer", fence=1),
        fact("text.delta", 0, offset=0, text="Hel"),
        fact("text.delta", 0, offset=3, text="lo"),
    ):
        told += projection.calls(each)
    end = fact("run.completed", code="", message="", usage={})
    told += projection.calls(end)
    told += projection.ending(RUN, end, message_of(KEY, "WebChat", "1", RUN, "Hello", "now", "complete"))
    assert [(name, arguments[1:3]) for name, arguments in told if name != "ReceiveMessage"] == [
        ("AgentTyping", [True, {"sessionId": KEY, "messageId": str(RUN), "eventId": "3.1-2"}]),
        ("ReceiveToken", ["Hel", False]),
        ("ReceiveToken", ["lo", False]),
        ("ReceiveToken", [None, True]),
        ("AgentTyping", [False, {"sessionId": KEY, "messageId": str(RUN), "eventId": "3.1-2"}]),
    ]
    (message,) = next(arguments for name, arguments in told if name == "ReceiveMessage")
    assert message["agentId"] == "writer" and message["text"] == message["content"] == "Hello"


def test_a_request_for_approval_offers_what_the_caller_may_say() -> None:
    asked = fact("approval.requested", 0, approval_id="a", tool="launch", choices=[each.value for each in Decision])
    told = [
        HubProjection(KEY, "default", allowed_decisions).calls(asked)[0][1][1]["choices"]
        for allowed_decisions in (tuple(Decision), (Decision.ALLOW_ONCE, Decision.DENY), ())
    ]
    assert told == [["allow_once", "allow_run", "allow_always", "deny"], ["allow_once", "deny"], []]


def test_the_text_after_a_tool_is_a_new_paragraph_and_its_result_is_told() -> None:
    projection = HubProjection(KEY, "default")
    told: list[Any] = []
    for each in (
        fact("text.delta", 0, offset=0, text="Let me see."),
        fact("tool.requested", 0, execution_id=str(CALL), tool="echo", arguments={"text": "x"}, risk="low"),
        fact("tool.failed", 0, execution_id=str(CALL), tool="echo", status="TimedOut", error="late", duration_ms=5),
        fact("text.delta", 1, offset=0, text="Sorry."),
    ):
        told += projection.calls(each)
    assert [arguments[1] for name, arguments in told if name == "ReceiveToken"] == ["Let me see.", "\n\nSorry."]
    (ended,) = [arguments[1] for name, arguments in told if name == "ToolCompleted"]
    assert (ended["status"], ended["error"], ended["durationMs"]) == ("TimedOut", "late", 5)


def test_a_failed_run_says_why_and_keeps_what_was_said() -> None:
    end = fact("run.failed", code="model_error", message="It broke.", usage={})
    calls = HubProjection(KEY, "default").ending(RUN, end, message_of(KEY, "WebChat", "1", RUN, "", "now", "partial"))
    assert [name for name, _ in calls] == ["RunFailed", "AgentTyping"]
    assert calls[0][1][1]["code"] == "model_error"
