"""Pictures of tool results as parts of messages."""

from agents_app.prompt import history
from agents_app.prompt.tool_pictures import apart
from agents_app.types import Message, MessagePart
from tools_app.types import ToolCall

SIGN = "0123456789ab"
ONE, OTHER = (MessagePart("image", "image/png", name, 3, name, f"Picture {name}") for name in "ab")
CALLS = (ToolCall("1", "a", "{}"), ToolCall("2", "b", "{}"))


def result(call_id: str, *parts: MessagePart) -> Message:
    return Message("tool", "r", tool_call_id=call_id, parts=parts)


def test_they_stand_behind_all_results_of_a_step() -> None:
    messages = [Message("assistant", "", CALLS), result("1", ONE), result("2", OTHER), Message("user", "And?")]
    found = list(apart(messages, SIGN))
    assert [message.role for message in found] == ["assistant", "tool", "tool", "user", "user"]
    assert [message.parts for message in found] == [(), (), (), (ONE, OTHER), ()]
    assert found[3].content == f"[tool output {SIGN}]\n{ONE.note}\n{OTHER.note}\n[end of tool output {SIGN}]"
    assert list(apart(messages[:3], SIGN))[-1].parts == (ONE, OTHER)


def test_messages_of_users_keep_their_parts() -> None:
    messages = [Message("user", "Look.", parts=(ONE,)), Message("assistant", "", CALLS[:1]), result("1")]
    assert list(apart(messages, SIGN)) == messages


def test_a_result_keeps_its_pictures_when_the_history_is_repaired_and_shortened() -> None:
    messages = [Message("user", "Hi"), Message("assistant", "", CALLS), result("2", OTHER), result("1", ONE)]
    repaired = history.repair(messages)
    assert [message.parts for message in repaired] == [(), (), (ONE,), (OTHER,)]
    assert [message.parts for message in history.fit(repaired, budget_tokens=1)] == [(), (), (ONE,), (OTHER,)]
