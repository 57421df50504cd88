"""Tools of a client, as requests of both protocols declare them."""

from typing import Any
from uuid import uuid4

import pytest

from audit_app.kernel.errors import InvalidInput
from sessions_app.surfaces.base.function_tools import call_id_of, execution_of
from sessions_app.surfaces.openai.client_tools import choice_as_sent, read_tools, tools_as_sent
from sessions_app.surfaces.openai.requests import read_completion, read_response

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION = {"name": "get_weather", "description": "Weather", "parameters": SCHEMA}
READ = [FUNCTION]


@pytest.mark.parametrize("tool", [{"type": "function", "function": FUNCTION}, {"type": "function", **FUNCTION}])
def test_both_protocols_declare_the_same_tool(tool: dict[str, Any]) -> None:
    assert read_tools({"tools": [tool]}) == (READ, "")


def test_a_function_may_have_neither_description_nor_parameters() -> None:
    tools, _ = read_tools({"tools": [{"type": "function", "name": "now"}]})
    assert tools == [{"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}]


@pytest.mark.parametrize(
    ("choice", "read"),
    [
        ("auto", (READ, "")),
        (None, (READ, "")),
        ("required", (READ, "required")),
        ("none", (None, "")),
        ({"type": "function", "name": "get_weather"}, (READ, "get_weather")),
        ({"type": "function", "function": {"name": "get_weather"}}, (READ, "get_weather")),
    ],
)
def test_the_choice_is_read(choice: Any, read: Any) -> None:
    assert read_tools({"tools": [{"type": "function", **FUNCTION}], "tool_choice": choice}) == read


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"tools": [{"type": "web_search"}]}, "unsupported_tool"),
        ({"tools": ["get_weather"]}, "unsupported_tool"),
        ({"tools": {}, "functions": [FUNCTION]}, "unsupported_parameter"),
        ({"tools": "all"}, "invalid_value"),
        ({"tools": [{"type": "function", "name": "f"}] * 129}, "invalid_value"),
        ({"tools": [{"type": "function", "name": "f"}] * 2}, "invalid_value"),
        ({"tools": [{"type": "function", "name": "a b"}]}, "invalid_value"),
        ({"tools": [{"type": "function", "name": "f", "description": 7}]}, "invalid_value"),
        ({"tools": [{"type": "function", "name": "f", "parameters": {"type": "array"}}]}, "invalid_value"),
        ({"tools": [{"type": "function", "name": "f", "parameters": {"$ref": "http://x/"}}]}, "invalid_value"),
        ({"tools": [{"type": "function", "name": "f"}], "tool_choice": "any"}, "invalid_value"),
        ({"tools": [{"type": "function", "name": "f"}], "tool_choice": {"type": "function"}}, "invalid_value"),
    ],
)
def test_what_cannot_be_offered_is_refused(body: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_tools(body)
    assert refused.value.code == code


def test_the_id_of_a_call_names_its_execution() -> None:
    execution_id = uuid4()
    assert execution_of(call_id_of(execution_id)) == execution_id
    assert execution_of("call_abc") is None and execution_of("") is None


def test_a_response_repeats_what_was_sent() -> None:
    assert tools_as_sent(READ) == [{"type": "function", **FUNCTION, "strict": False}] and tools_as_sent(None) == []
    assert [choice_as_sent(choice) for choice in ("", "required")] == ["auto", "required"]
    assert choice_as_sent("get_weather") == {"type": "function", "name": "get_weather"}


def test_outputs_at_the_end_take_the_place_of_a_message() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "How warm?"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "18"},
    ]
    parsed = read_completion({"model": "m", "messages": messages})
    assert parsed.text == "" and [(each.call_id, each.text) for each in parsed.outputs] == [("call_1", "18")]
    assert [message.role for message in parsed.history] == ["user", "assistant", "tool"]
    later = read_completion({"model": "m", "messages": [*messages, {"role": "user", "content": "And now?"}]})
    assert later.text == "And now?" and later.outputs == ()
    items = [{"type": "function_call_output", "call_id": "call_1", "output": "18"}]
    assert [each.text for each in read_response({"model": "m", "input": items}).outputs] == ["18"]
