import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents_app.prompt.history import NO_RESULT, SHORTENED, fit, repair
from agents_app.types import Message
from tools_app.types import ToolCall

CALL = ToolCall("c1", "echo", '{"text": "x"}')
OTHER = ToolCall("c2", "clock", "{}")
ASKS = Message("assistant", "", (CALL, OTHER))


def result(call_id: str, content: str = "ok") -> Message:
    return Message("tool", content, tool_call_id=call_id)


def user(text: str) -> Message:
    return Message("user", text)


def test_a_valid_history_stays_as_it_is() -> None:
    history = (
        Message("system", "s"),
        user("q"),
        ASKS,
        result("c1"),
        result("c2"),
        Message("assistant", "a"),
        user("q2"),
    )
    assert repair(history) == history


def test_a_missing_result_is_replaced_and_the_order_is_that_of_the_calls() -> None:
    assert repair([user("q"), ASKS, result("c2")]) == (user("q"), ASKS, result("c1", NO_RESULT), result("c2"))
    assert repair([user("q"), ASKS, result("c2"), result("c1")])[2:] == (result("c1"), result("c2"))


def test_a_message_between_call_and_result_moves_behind_the_result() -> None:
    repaired = repair([user("q"), ASKS, user("wait"), result("c1"), result("c2")])
    assert repaired == (user("q"), ASKS, result("c1"), result("c2"), user("wait"))


def test_results_without_a_call_and_second_results_are_dropped() -> None:
    repaired = repair([user("q"), result("zz"), ASKS, result("c1", "first"), result("c1", "second"), result("c2")])
    assert repaired == (user("q"), ASKS, result("c1", "first"), result("c2"))


def test_an_id_used_again_in_a_later_step_gets_its_own_result() -> None:
    once = replace(ASKS, tool_calls=(CALL,))
    repaired = repair([user("q"), once, once, result("c1", "second")])
    assert repaired == (user("q"), once, result("c1", NO_RESULT), once, result("c1", "second"))


@pytest.mark.parametrize("arguments", ["", '{"text": "x', "[1]", "null", '{"a": NaN}', "[" * 100_000])
def test_arguments_that_are_no_object_become_an_empty_one(arguments: str) -> None:
    asks = Message("assistant", "", (replace(CALL, arguments=arguments),))
    assert repair([user("q"), asks])[1].tool_calls[0].arguments == "{}"


def test_names_and_ids_that_servers_refuse_are_mended() -> None:
    asks = Message(
        "assistant", "", (ToolCall("", "web fetch!", "{}"), ToolCall("a", "", "{}"), ToolCall("a", "x" * 99, "{}"))
    )
    _, assistant, *results = repair([user("q"), asks, result("a", "1"), result("a", "2"), result("", "0")])
    assert [call.name for call in assistant.tool_calls] == ["web_fetch_", "unnamed", "x" * 64]
    assert len({call.id for call in assistant.tool_calls}) == 3
    assert [message.content for message in results] == ["0", "1", "2"]


def test_messages_of_one_side_in_a_row_become_one_and_empty_ones_go() -> None:
    repaired = repair([user("a"), Message("assistant", " "), user("b"), Message("assistant", "c"), ASKS])
    assert [(message.role, message.content) for message in repaired[:2]] == [("user", "a\n\nb"), ("assistant", "c")]
    assert repaired[1].tool_calls == (CALL, OTHER)


def test_system_messages_become_one_at_the_start() -> None:
    assert repair([user("q"), Message("system", "a"), Message("system", "b")]) == (
        Message("system", "a\n\nb"),
        user("q"),
    )


IDS = st.sampled_from(["", "a", "b", "c"])
TEXTS = st.sampled_from(["", " ", "x", "long " * 300])
CALLS = st.builds(
    ToolCall, id=IDS, name=st.sampled_from(["echo", "", "a b"]), arguments=st.sampled_from(["", "{}", "{", "[]"])
)
MESSAGES = st.lists(
    st.one_of(
        st.builds(Message, role=st.sampled_from(["system", "user"]), content=TEXTS),
        st.builds(Message, role=st.just("assistant"), content=TEXTS, tool_calls=st.lists(CALLS, max_size=3).map(tuple)),
        st.builds(Message, role=st.just("tool"), content=TEXTS, tool_call_id=IDS),
    ),
    max_size=12,
)


def assert_valid(messages: tuple[Message, ...]) -> None:
    """Check the rules of the strictest servers for a history."""
    open_calls: list[str] = []
    last = ""
    for message in messages:
        if message.role == "tool":
            assert message.tool_call_id == open_calls.pop(0)
        else:
            assert not open_calls, "a call was not answered before the next message"
            assert message.role != last or message.role == "tool"
            assert message.content or message.tool_calls
        if message.role == "system":
            assert last == ""
        open_calls += [call.id for call in message.tool_calls]
        assert len({*open_calls}) == len(open_calls) and all(open_calls)
        assert all(isinstance(json.loads(call.arguments), dict) for call in message.tool_calls)
        last = message.role
    assert not open_calls


@given(MESSAGES)
def test_a_repaired_history_is_valid_and_repairing_it_again_changes_nothing(messages: list[Message]) -> None:
    repaired = repair(messages)
    assert_valid(repaired)
    assert repair(repaired) == repaired


@given(MESSAGES, st.integers(0, 2000))
def test_a_fitted_history_is_still_valid_and_ends_the_same(messages: list[Message], budget: int) -> None:
    repaired = repair(messages)
    fitted = fit(repaired, budget_tokens=budget)
    assert_valid(fitted)
    assert [message.role for message in fitted[-1:]] == [message.role for message in repaired[-1:]]
    assert fit(fitted, budget_tokens=budget) == fitted


def test_the_oldest_rounds_go_first_and_whole() -> None:
    rounds = [(user(f"q{number} " + "x" * 400), Message("assistant", "a" * 400)) for number in range(5)]
    history = [Message("system", "s"), *(message for pair in rounds for message in pair)]
    fitted = fit(history, budget_tokens=450)
    assert fitted == (Message("system", "s"), *rounds[3], *rounds[4])


def test_everything_stays_when_it_fits() -> None:
    history = (Message("system", "s"), user("a"), Message("assistant", "b"), user("c"))
    assert fit(history, budget_tokens=1000) == history


def test_the_newest_message_stays_however_long_it_is() -> None:
    history = [user("old"), Message("assistant", "old"), user("x" * 100_000)]
    assert fit(history, budget_tokens=10) == (history[-1],)


def test_a_message_of_an_earlier_run_that_was_never_answered_may_be_left_out() -> None:
    failed, asked = replace(user("x" * 100_000), ordinal=3), user("Are you there?")
    assert fit([failed, asked], budget_tokens=100) == (asked,)
    assert fit([user("first"), asked], budget_tokens=1) == (user("first"), asked)  # both of this run


def test_too_long_results_of_the_newest_round_are_shortened_oldest_first() -> None:
    history = [user("q"), ASKS, result("c1", "ä" * 4000), result("c2", "b" * 4000)]
    _, _, first, second = fit(history, budget_tokens=2000)
    assert first.content.endswith(SHORTENED) and len(first.content) < 600
    assert second == history[3]
