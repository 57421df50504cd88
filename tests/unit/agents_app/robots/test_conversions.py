"""Conversions between histories and typed messages: kept and lost data of each direction."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents_app.prompt.history import repair
from agents_app.robots.conversions import result_content, typed, untyped
from agents_app.robots.messages import AnyMessage, Role, TextMessage, ToolCallMessage, ToolMessage, ToolResultMessage
from agents_app.types import Message
from tests.unit.agents_app.robots.strategies import CONTENTS, MESSAGES, OBJECTS, TEXT
from tools_app.types import ToolCall

ARGUMENTS = st.sampled_from(['{"a": 1}', '{"a":1}', "{", "[1]", ""])
CALLS = st.builds(ToolCall, st.sampled_from("abc"), TEXT, ARGUMENTS)
OURS = st.lists(
    st.builds(Message, st.sampled_from(["system", "user", "assistant"]), TEXT)
    | st.builds(Message, st.just("assistant"), TEXT, st.lists(CALLS, max_size=2).map(tuple))
    | st.builds(
        Message,
        st.just("tool"),
        TEXT | st.sampled_from(['{"x": 1}', "[Failed] no", "[Unknown] maybe"]),
        tool_call_id=st.sampled_from("abcd"),
    )
)


@st.composite
def rounds(draw: st.DrawFn) -> list[AnyMessage]:
    """Return typed messages like those of a run: texts, calls with a text before them, a result for each call."""
    made: list[AnyMessage] = [TextMessage(Role.USER, draw(TEXT))]
    for number in range(draw(st.integers(0, 3))):
        tools = tuple(
            ToolMessage(f"call_{number}_{place}", draw(TEXT), draw(OBJECTS)) for place in range(draw(st.integers(1, 2)))
        )
        if plain_text := draw(TEXT):
            made.append(TextMessage(Role.ASSISTANT, plain_text))
        made.append(ToolCallMessage(Role.ASSISTANT, tools))
        made += [ToolResultMessage(tool, draw(CONTENTS)) for tool in tools]
    return [*made, TextMessage(Role.ASSISTANT, draw(TEXT))]


@given(rounds())
def test_a_runs_messages_come_back_whole_from_a_history(messages: list[AnyMessage]) -> None:
    assert list(typed(untyped(messages))) == messages


@given(OURS)
def test_from_a_history_only_spellings_and_orphans_names_are_lost(history: list[Message]) -> None:
    back = untyped(typed(history))
    assert [text for message in history if message.role != "tool" and (text := message.content)] == [
        text for message in back if message.role != "tool" and (text := message.content)
    ]
    assert _calls(history) == _calls(back)
    results = [message for message in history if message.role == "tool"]
    assert [(each.tool_call_id, result_content(each.content)) for each in results] == [
        (each.tool_call_id, result_content(each.content)) for each in back if each.role == "tool"
    ]


@given(OURS)
def test_a_second_trip_loses_nothing_more(history: list[Message]) -> None:
    once = untyped(typed(history))
    assert untyped(typed(once)) == once


@given(st.lists(MESSAGES))
def test_into_a_history_stop_reasons_are_dropped_and_nothing_else_changes(messages: list[AnyMessage]) -> None:
    bare = [replace(one, stop_reason=None) if isinstance(one, TextMessage) else one for one in messages]
    assert untyped(messages) == untyped(bare)


@given(rounds())
def test_what_comes_out_is_a_history_for_any_provider(messages: list[AnyMessage]) -> None:
    repaired = repair(untyped(messages))
    calls = [call.id for message in repaired for call in message.tool_calls]
    assert calls == [message.tool_call_id for message in repaired if message.role == "tool"]


@pytest.mark.parametrize(
    ("result", "content"),
    [
        ('{"a": 1}\n[receipt: kr1.x]', {"data": {"a": 1}}),
        ('"text"', {"data": "text"}),
        ("plain text", {"data": "plain text"}),
        ("", {"data": ""}),
        ("[1]", {"data": [1]}),
        ("[Failed] It broke.", {"error": "It broke."}),
        ("[TimedOut] Too late.", {"error": "[TimedOut] Too late."}),
    ],
)
def test_a_result_is_data_or_an_error_without_its_receipt(result: str, content: dict[str, object]) -> None:
    assert result_content(result) == content


def test_a_text_beside_a_call_becomes_a_message_before_it() -> None:
    history = [Message("assistant", "Let me see.", (ToolCall("a", "echo", '{"text":"x"}'),)), Message("tool", "1")]
    assert [type(message) for message in typed(history)] == [TextMessage, ToolCallMessage, ToolResultMessage]


def _calls(history: Sequence[Message]) -> list[tuple[str, str, object]]:
    return [
        (tool.id, tool.name, tool.input)
        for message in typed(history)
        if isinstance(message, ToolCallMessage)
        for tool in message.tools
    ]
