"""Structured output: the JSON in an answer, its check, and schemas that cannot be used."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents_app import structured_output
from agents_app.structured_output import check_schema, find_json, judge, problem_of, repair_message
from agents_app.types import ModelResponse
from audit_app.kernel.errors import InvalidInput
from tools_app.types import ToolCall

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "array", "items": {"type": "integer"}}},
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"city": "Bern"}', '{"city": "Bern"}'),
        ("  [1, 2]\n", "[1, 2]"),
        ('```json\n{"city": "Bern"}\n```', '{"city": "Bern"}'),
        ('Here it is:\n```\n{"city": "Bern"}\n```\nAnything else?', '{"city": "Bern"}'),
        ('Sure: {"city": "Bern"} is the answer.', '{"city": "Bern"}'),
        ('```json\n{"a": 1}\n```\nor\n```json\n{"a": 2}\n```', None),
        ('{"city": "Bern"', None),
        ('{"n": NaN}', None),
        ('{"n": 1e999}', None),
        ("[" * 100_000, None),
        ("```\n" * 50_001, None),
        ("No JSON here.", None),
    ],
)
def test_the_json_of_an_answer_is_found_as_the_model_wrote_it(text: str, found: str | None) -> None:
    assert find_json(text) == found


@given(st.text(max_size=200))
@settings(max_examples=20)
def test_any_text_gives_json_or_a_problem(text: str) -> None:
    assert find_json(text) is not None or problem_of(text, SCHEMA)


def test_problems_name_places_by_json_pointers() -> None:
    assert problem_of('{"city": "Bern", "people": [1, "two"]}', SCHEMA) == "/people/1: must be integer, not string"
    assert problem_of("{}", SCHEMA) == "city is missing"
    assert "it ends before the JSON does" in problem_of('{"city": "Be', SCHEMA)
    assert "not valid JSON" in problem_of("Bern", SCHEMA)
    assert "/people/1: must be integer" in repair_message('{"city": "Bern", "people": [1, "two"]}', SCHEMA)


def test_an_answer_is_kept_as_its_json_or_rejected() -> None:
    assert judge(ModelResponse('```json\n{"city": "Bern"}\n```'), SCHEMA).text == '{"city": "Bern"}'
    rejected = judge(ModelResponse("Bern"), SCHEMA)
    assert (rejected.text, rejected.finish_reason) == ("Bern", "rejected")
    call = ModelResponse("Let me look.", tool_calls=(ToolCall("c", "echo", "{}"),))
    assert judge(call, SCHEMA) is call
    assert judge(ModelResponse("Bern"), None).finish_reason == "stop"
    assert judge(ModelResponse(" "), SCHEMA).finish_reason == "stop"  # it fails as an empty answer


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "objekt"}, "/type: 'objekt' is not valid"),
        ({"properties": {"a": {"minimum": "1"}}}, "/properties/a/minimum: '1' is not of type 'number'"),
        ({"$ref": "https://example.org/schema"}, "external reference"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "/properties/a/$ref: #/$defs/none is not in the schema"),
        ({"patternProperties": {"^x": {}}}, "/: patternProperties is not supported"),
        ({"properties": {"default": {"patternProperties": {"^x": {}}}}}, "/properties/default: patternProperties"),
        ({"properties": {"const": {"$ref": "#/none"}}}, "/properties/const/$ref: #/none is not in the schema"),
        ({"enum": ["x" * 70_000]}, "more than 64,000 characters"),
        ("text", "must be a JSON object"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_with_the_place(schema: Any, problem: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be used") as refused:
        check_schema(schema)
    assert problem in refused.value.message


def test_a_property_may_have_the_name_of_a_keyword() -> None:
    names = ("patternProperties", "$ref", "default", "properties")
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    assert check_schema(schema) is schema


def test_a_deep_schema_is_refused_and_one_that_refers_to_itself_is_not() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"not": deep}
    with pytest.raises(InvalidInput, match="too deeply"):
        check_schema(deep)
    tree = {"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
    assert check_schema(tree) is tree
    assert not problem_of("[[], [[]]]", tree) and problem_of("[1]", tree)


def test_the_value_of_a_text_that_is_no_json_is_none() -> None:
    assert structured_output.value_of("Bern") is None and structured_output.value_of("[1]") == [1]
