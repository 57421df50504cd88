"""Typed messages: allowed values, predicates and the JSON form."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents_app.robots.messages import (
    Message,
    MessageType,
    Role,
    StopReason,
    TextMessage,
    ToolCallMessage,
    ToolMessage,
    ToolResultMessage,
    UserMessage,
)
from agents_app.robots.results import RobotResult
from tests.unit.agents_app.robots.strategies import JSON, MESSAGES, TOOLS

TEXTS = st.text(max_size=12)


@given(MESSAGES)
def test_a_message_is_the_same_after_its_json(message: Any) -> None:
    assert Message.from_dict(json.loads(message.to_json())) == message


@given(MESSAGES)
def test_none_is_left_out(message: Any) -> None:
    shown = message.to_dict()
    assert None not in shown.values()
    assert ("stop_reason" in shown) is (message.stop_reason is not None)
    assert ("content" in shown) is (message.type is not MessageType.TOOL_CALL)


@given(MESSAGES)
def test_exactly_one_type_and_at_most_one_role_and_stop_reason_hold(message: Any) -> None:
    assert [message.is_text, message.is_tool_call, message.is_tool_result].count(True) == 1
    roles = {"system": message.is_system, "user": message.is_user, "assistant": message.is_assistant}
    assert [name for name, holds in roles.items() if holds] == [message.role] * (message.role in roles)
    assert (message.is_stopped, message.is_tool_stop) == (message.stop_reason == "stop", message.stop_reason == "tool")


@given(TEXTS)
def test_the_vocabulary_is_closed(word: str) -> None:
    for known, make in (
        (set(Role), lambda: TextMessage(word, "x")),  # type: ignore[arg-type]
        (set(StopReason), lambda: TextMessage(Role.USER, "x", word)),  # type: ignore[arg-type]
        (
            {*MessageType, ""},
            lambda: Message.from_dict(
                {"type": word, "role": "user", "content": {}, "tools": [], "tool": {"id": "1", "name": "x"}}
            ),
        ),
    ):
        if word not in known:
            with pytest.raises(ValueError, match="valid"):
                make()


def test_roles_and_stop_reasons_may_be_plain_text() -> None:
    assert TextMessage("user", "x", "stop") == TextMessage(Role.USER, "x", StopReason.STOP)  # type: ignore[arg-type]


def test_defaults_are_those_of_the_contract() -> None:
    tool = ToolMessage("1", "echo", {"text": "x"})
    call, result = ToolCallMessage(Role.ASSISTANT, (tool,)), ToolResultMessage(tool, {"data": 1})
    assert (call.stop_reason, call.content, TextMessage(Role.USER, "x").stop_reason) == ("tool", None, None)
    assert (result.role, result.stop_reason) == ("tool_result", "tool")
    assert call.to_dict() == {
        "type": "tool_call",
        "role": "assistant",
        "stop_reason": "tool",
        "tools": [{"type": "tool", "id": "1", "name": "echo", "input": {"text": "x"}}],
    }


def test_a_message_without_a_type_is_a_text() -> None:
    assert Message.from_dict({"role": "user", "content": "hi"}) == TextMessage(Role.USER, "hi")


@given(TOOLS)
def test_a_tool_is_read_from_arguments_as_from_input(tool: ToolMessage) -> None:
    shown = tool.to_dict()
    assert ToolMessage.from_dict({"id": shown["id"], "name": shown["name"], "arguments": shown["input"]}) == tool


@given(st.dictionaries(st.sampled_from(["data", "error", "x"]), JSON))
def test_success_and_error_go_by_the_keys_of_the_content(content: dict[str, Any]) -> None:
    result = ToolResultMessage(ToolMessage("1", "echo"), content)
    assert (result.success, result.error_p) == ("data" in content, "error" in content)
    assert (result.data, result.error) == (content.get("data"), content.get("error"))


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"role": "user"},
        {"content": "x"},
        {"type": "tool_call", "role": "assistant"},
        {"type": "tool_result", "content": {}},
        {"type": "tool_result", "tool": {"id": "1"}, "content": {}},
        {"type": "tool_result", "tool": {"id": "1", "name": "x", "input": [1]}, "content": {}},
    ],
)
def test_what_is_no_message_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="the message has no|the input of a tool"):
        Message.from_dict(data)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("end_turn", "stop"), ("STOP", "stop"), ("tool_use", "tool"), ("length", None), ("", None), (None, None)],
)
def test_a_providers_reason_is_mapped_once(reason: str | None, expected: str | None) -> None:
    assert StopReason.of_provider(reason) == expected


@given(st.text(), st.none() | st.text(), st.dictionaries(st.text(), JSON))
def test_a_user_message_keeps_its_metadata_and_wraps_the_text(
    text: str, session_id: str | None, metadata: dict[str, Any]
) -> None:
    message = UserMessage(text, session_id, metadata=metadata)
    assert UserMessage.from_dict(json.loads(json.dumps(message.to_dict()))) == message
    assert message.to_message() == TextMessage(Role.USER, text)


def test_a_tool_message_is_a_tool_call() -> None:
    tool = ToolMessage("1", "echo")
    assert tool.is_tool_call and not tool.is_tool_result and not tool.is_text


def test_messages_and_results_are_read_by_their_other_names() -> None:
    assert Message.from_hash(type="text", role="user", content="Hi") == TextMessage(Role.USER, "Hi")
    call = ToolCallMessage(role="assistant", content=None, stop_reason="tool", tools=[ToolMessage("1", "echo")])
    assert Message.from_hash(call.to_dict()) == call and "content" not in call.to_dict()
    with pytest.raises(ValueError, match="has no content"):
        ToolCallMessage("assistant", (), content="x")
    result = RobotResult("clerk", (TextMessage(Role.ASSISTANT, "Hi"),))
    assert RobotResult.from_hash(result.to_dict()) == result
