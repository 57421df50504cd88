"""The records of the hub, and the calls for the events of a run."""

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit_app.kernel.errors import InvalidInput
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.signalr import protocol
from sessions_app.surfaces.signalr.projection import HubProjection
from tools_app.types import Decision

RUN, SESSION, CALL = UUID(int=1), UUID(int=2), UUID(int=3)
KEY = "WebChat:default:1"


def event(kind: str, step: int | None = None, **payload: Any) -> SessionEvent:
    return SessionEvent(kind, SESSION, RUN, step, payload, "3.1-2")


def message(text: str) -> dict[str, Any]:
    """Return what the projection needs of a stored message."""
    return {"messageId": str(RUN), "sessionId": KEY, "text": text, "content": text}


@given(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=3), max_size=5), st.data())
def test_records_are_read_from_any_pieces(records: list[dict[str, str]], data: st.DataObject) -> None:
    text = protocol.frame(*records)
    cut = data.draw(st.integers(0, len(text)))
    reader = protocol.RecordReader()
    assert [*reader.feed(text[:cut]), *reader.feed(text[cut:])] == records


def test_a_frame_ends_with_the_separator() -> None:
    assert protocol.frame(protocol.ping(), protocol.close()) == '{"type":6}\x1e{"type":7}\x1e'


@pytest.mark.parametrize("text", ["x\x1e", "[]\x1e", "[" * 100_000 + "\x1e", "x" * 300_000])
def test_malformed_records_are_refused(text: str) -> None:
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
def test_only_the_json_protocol_is_accepted(record: dict[str, Any], is_fine: bool) -> None:
    assert (protocol.handshake_error(record) == "") is is_fine


def test_completions_have_a_result_or_an_error() -> None:
    assert json.loads(protocol.frame(protocol.completion("0"))[:-1]) == {"type": 3, "invocationId": "0", "result": None}
    assert "result" not in protocol.completion("0", error="no")


def test_the_calls_of_an_answer_have_the_order_of_the_original_hub() -> None:
    projection = HubProjection(KEY, "default")
    calls: list[Any] = []
    for each in (
        event("run.queued", agent_id="writer", ordinal=0),
        event("run.started", agent_id="writer", fence=1),
        event("text.delta", 0, offset=0, text="Hel"),
        event("text.delta", 0, offset=3, text="lo"),
    ):
        calls += projection.calls(each)
    end = event("run.completed", code="", message="", usage={})
    calls += projection.calls(end)
    calls += projection.end(RUN, end, message("Hello"))
    assert [(name, arguments[1:3]) for name, arguments in calls if name != "ReceiveMessage"] == [
        ("AgentTyping", [True]),
        ("ReceiveToken", ["Hel", False]),
        ("ReceiveToken", ["lo", False]),
        ("ReceiveToken", [None, True]),
        ("AgentTyping", [False]),
    ]
    (received,) = next(arguments for name, arguments in calls if name == "ReceiveMessage")
    assert received["agentId"] == "writer" and received["text"] == received["content"] == "Hello"


def test_the_agent_types_from_the_message_on_and_again_for_one_that_waited() -> None:
    projection, other = HubProjection(KEY, "default"), UUID(int=7)
    queued, started = (
        event("run.queued", agent_id="writer", ordinal=0),
        event("run.started", agent_id="writer", fence=1),
    )
    end = event("run.completed", code="", message="", usage={})

    def typing(calls: list[Any]) -> list[bool]:
        return [arguments[1] for name, arguments in calls if name == "AgentTyping"]

    seen = [typing(projection.calls(each)) for each in (queued, started, replace(queued, run_id=other))]
    seen += [typing(projection.end(RUN, end, message("One"))), typing(projection.calls(replace(started, run_id=other)))]
    assert seen == [[True], [], [], [False], [True]]


@pytest.mark.parametrize(("has_positions", "more"), [(False, 0), (True, 1)])
def test_handlers_get_exactly_the_arguments_of_the_original_hub(has_positions: bool, more: int) -> None:
    projection = HubProjection(KEY, "default", has_positions=has_positions)
    end = event("run.failed", code="x", message="y", usage={})
    calls = [
        *projection.calls(event("run.started", agent_id="writer", fence=1)),
        *projection.calls(event("text.delta", 0, offset=0, text="Hel")),
        *projection.calls(end),
        *projection.end(RUN, end, message("Hel")),
    ]
    found = {(name, len(arguments)) for name, arguments in calls}
    assert found == {("AgentTyping", 2 + more), ("ReceiveToken", 3 + more), ("ReceiveMessage", 1), ("RunFailed", 2)}


def test_an_approval_request_offers_the_allowed_decisions() -> None:
    asked = event("approval.requested", 0, approval_id="a", tool="launch", choices=[each.value for each in Decision])
    choices = [
        HubProjection(KEY, "default", allowed_decisions).calls(asked)[0][1][1]["choices"]
        for allowed_decisions in (tuple(Decision), (Decision.ALLOW_ONCE, Decision.DENY), ())
    ]
    assert choices == [["allow_once", "allow_run", "allow_always", "deny"], ["allow_once", "deny"], []]


def test_a_request_of_a_workstream_names_it_and_its_parent() -> None:
    asked = event("input.requested", 0, request_id="q", question="Which?", options=[])
    of_child = replace(asked, parent_run_id=SESSION, workstream="prices")
    (_, (_, own)), (_, (_, theirs)) = (HubProjection(KEY, "default").calls(each)[0] for each in (asked, of_child))
    assert theirs == {**own, "parentRunId": str(SESSION), "workstream": "prices"}


def test_text_after_a_tool_call_is_a_new_paragraph() -> None:
    projection = HubProjection(KEY, "default")
    calls: list[Any] = []
    for each in (
        event("text.delta", 0, offset=0, text="Let me see."),
        event("tool.requested", 0, execution_id=str(CALL), tool="echo", arguments={"text": "x"}, risk="low"),
        event("tool.failed", 0, execution_id=str(CALL), tool="echo", status="TimedOut", error="late", duration_ms=5),
        event("text.delta", 1, offset=0, text="Sorry."),
    ):
        calls += projection.calls(each)
    assert [arguments[1] for name, arguments in calls if name == "ReceiveToken"] == ["Let me see.", "\n\nSorry."]
    (ended,) = [arguments[1] for name, arguments in calls if name == "ToolCompleted"]
    assert (ended["status"], ended["error"], ended["durationMs"]) == ("TimedOut", "late", 5)


def test_a_failed_run_has_its_reason() -> None:
    end = event("run.failed", code="model_error", message="It broke.", usage={})
    calls = HubProjection(KEY, "default").end(RUN, end, message(""))
    assert [name for name, _ in calls] == ["RunFailed", "AgentTyping"]
    assert calls[0][1][1]["code"] == "model_error"
