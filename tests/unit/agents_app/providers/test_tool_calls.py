from typing import Any

import pytest

from agents_app.providers.tool_calls import CUT_OFF, CallAssembly
from tools_app.types import ToolCall


def fragment(
    index: Any = 0, call_id: str | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    function = {key: value for key, value in [("name", name), ("arguments", arguments)] if value is not None}
    outer = {"index": index, "id": call_id, "type": "function"}
    return {**{key: value for key, value in outer.items() if value is not None}, "function": function}


def assembled(*fragments: Any, is_cut: bool = False) -> tuple[ToolCall, ...]:
    assembly = CallAssembly()
    for part in fragments:
        assembly.add(part)
    return assembly.finish(is_cut=is_cut)


def names_and_arguments(calls: tuple[ToolCall, ...]) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in calls]


def test_fragments_of_two_calls_are_sorted_by_index() -> None:
    calls = assembled(
        fragment(0, "a", "echo", ""),
        fragment(1, "b", "calculator", ""),
        fragment(0, arguments='{"te'),
        fragment(1, arguments="{}"),
        fragment(0, arguments='xt":"x"}'),
    )
    assert calls == (ToolCall("a", "echo", '{"text":"x"}'), ToolCall("b", "calculator", "{}"))


def test_a_name_in_fragments_is_joined_and_a_repeated_one_is_not() -> None:
    assert names_and_arguments(assembled(fragment(0, "a", "calc"), fragment(0, name="ulator", arguments="{}"))) == [
        ("calculator", "{}")
    ]
    repeated = [fragment(0, "a", "echo", '{"a"'), fragment(0, "a", "echo", ":1}")]
    assert names_and_arguments(assembled(*repeated)) == [("echo", '{"a":1}')]


def test_calls_with_the_same_index_are_distinguished_by_id() -> None:
    calls = assembled(
        fragment(0, "a", "echo"),
        fragment(0, "b", "echo"),
        fragment(0, "a", arguments="1"),
        fragment(0, "b", arguments="2"),
    )
    assert calls == (ToolCall("a", "echo", "1"), ToolCall("b", "echo", "2"))


def test_complete_calls_with_one_index_and_no_ids_are_distinguished() -> None:
    calls = assembled(fragment(0, name="echo", arguments='{"a":1}'), fragment(0, name="echo", arguments='{"a":2}'))
    assert names_and_arguments(calls) == [("echo", '{"a":1}'), ("echo", '{"a":2}')]
    assert len({call.id for call in calls}) == 2


def test_calls_without_an_index_are_distinguished_by_id() -> None:
    calls = assembled(
        fragment(None, "a", "echo", "{}"), fragment(None, "b", "echo", "{"), fragment(None, arguments="}")
    )
    assert calls == (ToolCall("a", "echo", "{}"), ToolCall("b", "echo", "{}"))


def test_missing_doubled_and_overlong_ids_are_made_up() -> None:
    calls = assembled(fragment(0, None, "a"), fragment(1, "x", "b"), fragment(2, "x", "c"), fragment(3, "y" * 500, "d"))
    ids = [call.id for call in calls]
    assert ids[1] == "x" and len(set(ids)) == 4 and all(0 < len(call_id) <= 64 for call_id in ids)


def test_arguments_are_kept_as_raw_text() -> None:
    assert names_and_arguments(assembled(fragment(0, "a", "echo", '{"broken'))) == [("echo", '{"broken')]
    assert names_and_arguments(assembled(fragment(0, "a", "echo", {"text": "x"}))) == [("echo", '{"text": "x"}')]


def test_null_is_no_arguments() -> None:
    assert names_and_arguments(assembled(fragment(0, "a", "now", "nu"), fragment(0, arguments="ll"))) == [("now", "{}")]


def test_a_character_split_over_two_fragments_is_joined() -> None:
    assert names_and_arguments(assembled(fragment(0, "a", "e", '"\ud83d'), fragment(0, arguments='\ude00"'))) == [
        ("e", '"😀"')
    ]


def test_a_call_that_was_cut_before_its_arguments_does_not_look_whole() -> None:
    calls = assembled(fragment(0, "a", "now"), fragment(1, "b", "send"), is_cut=True)
    assert names_and_arguments(calls) == [("now", ""), ("send", CUT_OFF)]
    assert names_and_arguments(assembled(fragment(0, "a", "now"))) == [("now", "")]


@pytest.mark.parametrize("junk", [None, 3, "x", [], {}, {"function": None}, {"index": "0", "function": {"name": 3}}])
def test_junk_does_not_break_it(junk: Any) -> None:
    assembled(junk)
