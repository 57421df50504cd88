"""Parsing, limits and validation of a model's arguments."""

import json

import pytest

from tests.support.cpu_cost import costs_less_than
from tools_app import schema
from tools_app.types import ToolSpec

PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1, "maxLength": 5},
        "days": {"type": "integer", "minimum": 1},
        "unit": {"enum": ["C", "F"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["city"],
    "additionalProperties": False,
}


def read(text):
    return schema.read_arguments(text, max_characters=1000)


def test_a_json_object_is_read_and_no_text_means_no_arguments():
    assert read('{"city": "Köln", "days": 2}') == {"city": "Köln", "days": 2}
    assert read("") == read("  ") == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"city": "Kö', "not valid JSON"),
        ('{"city": "Köln"} {"city": "Ulm"}', "not valid JSON"),
        ("[1, 2]", "must be a JSON object, not array"),
        ('"city"', "must be a JSON object, not string"),
        ("null", "must be a JSON object, not null"),
        ('{"x": NaN}', "NaN is not a JSON number"),
        ('{"x": 1e999}', "too large"),
        ('{"x": ' + "9" * 900 + "e" + "9" * 90 + "}", "too large"),
        ('{"x": "a\\u0000b"}', "NUL"),
        ('{"\\u0000": 1}', "NUL"),
        ('{"x": "\\ud800"}', "surrogate"),
        ('{"x": ' + "[" * 50 + "]" * 50 + "}", "nested"),
        ("[" * 100_000, "longer than 1000"),
        ('{"x": "' + "y" * 1000 + '"}', "longer than 1000"),
    ],
)
def test_what_is_no_usable_object_is_refused_with_the_reason(text, reason):
    with pytest.raises(schema.ArgumentsError, match=reason):
        read(text)


def test_json_nested_deeper_than_python_can_follow_is_refused():
    with pytest.raises(schema.ArgumentsError, match="nested"):
        schema.read_arguments("[" * 200_000, max_characters=1_000_000)


def test_an_escaped_backslash_before_u0000_is_not_a_nul():
    assert read('{"x": "\\\\u0000"}') == {"x": "\\u0000"}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "city is missing"),
        ({"city": 5}, "city: must be string, not integer"),
        ({"city": None}, "city: must be string, not null"),
        ({"city": "Paris-Nord"}, "city: must keep to maxLength 5, has 10"),
        ({"city": "Ulm", "days": 0}, "days: must keep to minimum 1"),
        ({"city": "Ulm", "days": True}, "days: must be integer, not boolean"),
        ({"city": "Ulm", "unit": "K"}, 'unit: must be one of "C", "F"'),
        ({"city": "Ulm", "tags": ["a", 2]}, "tags.1: must be string, not integer"),
        ({"city": "Ulm", "town": "x"}, r"town is not known \(known: city, days, tags, unit\)"),
        ({"days": 0}, "city is missing; days: must keep to minimum 1"),
    ],
)
def test_a_misfit_names_the_field_and_what_was_expected(arguments, problem):
    with pytest.raises(schema.ArgumentsError, match=problem):
        schema.check_arguments(arguments, PARAMETERS)


def test_fitting_arguments_pass():
    schema.check_arguments({"city": "Ulm", "days": 3, "unit": "C", "tags": []}, PARAMETERS)


def test_a_misfit_never_repeats_a_long_value():
    with pytest.raises(schema.ArgumentsError) as error:
        schema.check_arguments({"city": "x" * 100_000}, {"properties": {"city": {"pattern": "^y$"}}})
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [({}, 30), ({"timeout_seconds": 5}, 5), ({"timeout_seconds": 2.1}, 3), ({"timeout_seconds": 10**9}, 60)],
)
def test_a_call_may_ask_for_its_own_time_limit_up_to_the_cap(asked, seconds):
    assert schema.take_timeout({"a": 1, **asked}, default_seconds=30, max_seconds=60) == ({"a": 1}, seconds)


def test_a_default_above_the_cap_is_capped():
    assert schema.take_timeout({}, default_seconds=300, max_seconds=60) == ({}, 60)


@pytest.mark.parametrize("asked", [0, -1, True, "10", [1], 0.5])
def test_a_time_limit_that_is_none_is_refused(asked):
    with pytest.raises(schema.ArgumentsError, match="timeout_seconds"):
        schema.take_timeout({"timeout_seconds": asked}, default_seconds=30, max_seconds=60)


def test_models_see_no_keywords_that_only_matter_to_validation():
    rule = {"type": "string", "maxLength": 9, "title": "City", "enum": ["title"], "description": "Of birth."}
    parameters = {
        "type": "object",
        "properties": {"title": rule, "maxLength": {"type": "array", "items": rule, "uniqueItems": True}},
        "required": ["title"],
        "additionalProperties": False,
    }
    shown = {"type": "string", "enum": ["title"], "description": "Of birth."}
    seen = schema.advertised(ToolSpec("born", "", parameters, timeout_seconds=5), max_timeout_seconds=60)
    assert seen.parameters == {
        "type": "object",
        "properties": {"title": shown, "maxLength": {"type": "array", "items": shown}},
        "required": ["title"],
    }


def test_models_are_offered_a_time_limit_and_the_declared_spec_stays_as_it_is():
    spec = ToolSpec("weather", "Tells it.", PARAMETERS, timeout_seconds=60)
    offered = schema.advertised(spec, max_timeout_seconds=1800)
    limit = offered.parameters["properties"]["timeout_seconds"]
    assert (limit["type"], limit["maximum"]) == ("integer", 1800)
    assert offered.parameters["required"] == ["city"]
    assert "timeout_seconds" not in json.dumps(spec.parameters)


@pytest.mark.parametrize(
    "parameters", [{"type": "array"}, {}, {"type": "object", "properties": {"timeout_seconds": {"type": "integer"}}}]
)
def test_a_tool_with_an_unusable_declaration_is_refused(parameters):
    with pytest.raises(ValueError, match="bad"):
        schema.check_spec(ToolSpec("bad", "", parameters))


def bomb(levels: int):
    names = {f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(levels)}
    return {"type": "object", "$ref": "#/$defs/l0", "$defs": {**names, f"l{levels}": {}}}


@pytest.mark.parametrize(
    ("rule", "value", "problem"),
    [
        (bomb(3), {}, ""),
        (bomb(40), {}, "it takes too long to be checked"),
        ({"$ref": "#/$defs/nowhere"}, {}, "it cannot be checked by the schema"),
        ({"uniqueItems": True}, [{"n": number} for number in range(20_000)], ""),
        ({"uniqueItems": True}, [1, True, "1", [1]], ""),
        ({"uniqueItems": True}, [{"a": 1, "b": 2}, {"b": 2, "a": 1.0}], "must not have the same item twice"),
    ],
    ids=["small", "bomb", "nowhere", "many", "unlike", "alike"],
)
def test_a_strangers_schema_costs_little_and_breaks_nothing(rule, value, problem):
    with costs_less_than(3.0):
        found = schema.find_problems(value, rule)
    assert found.startswith(problem) and bool(found) == bool(problem)


def test_a_strangers_schema_loses_its_regular_expressions_and_keeps_its_names():
    rule = {"properties": {"pattern": {"pattern": "^(a+)+$"}, "patternProperties": {"type": "string"}}}
    given = {"type": "object", **rule, "patternProperties": {"^(a+)+$": {}}}
    fit = {"type": "object", "properties": {"pattern": {}, "patternProperties": {"type": "string"}}}
    assert schema.fit_foreign(given) == fit


@pytest.mark.parametrize(
    "rule",
    [
        {"$ref": "http://example.com/"},
        {"properties": {"a": {"$ref": {"b": 1}}}},
        {"type": "banana"},
        {"properties": {"a": {"minimum": "x"}}},
        {"multipleOf": 0},
    ],
)
def test_an_invalid_or_external_schema_is_refused(rule):
    with pytest.raises(ValueError, match="the schema|JSON Schema"):
        schema.fit_foreign(rule)
