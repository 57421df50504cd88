"""What every registered tool must keep to, whoever wrote it."""

import json
import re
from uuid import uuid4

import pytest

from tools_app import conf, schema
from tools_app.registry import tools
from tools_app.types import Effect, Risk, Tool, ToolContext, ToolError

# One call of each tool that works anywhere, and one that its schema lets through and that must fail readably (or None).
CALLS = {
    "calculator": ({"expression": "6*7"}, {"expression": "9**9**9"}),
    "date_time": ({"timezone": "UTC"}, {"timezone": "Nowhere/Else"}),
    "echo": ({"text": "hällo"}, None),
    "web_fetch": (None, {"url": "http://127.0.0.1/"}),
}


# Those whose good call needs no network, and those that a call can make fail.
OFFLINE = [name for name, (good, _) in CALLS.items() if good]
FALLIBLE = [name for name, (_, bad) in CALLS.items() if bad]


@pytest.fixture(params=tools.names())
def tool(request) -> Tool:
    return tools.get(request.param)


@pytest.fixture
def context():
    return ToolContext(
        execution_id=uuid4(), run_id=uuid4(), session_id=uuid4(), agent_id="default", actor="user:1",
        effect_key="key", timeout_seconds=10,
    )  # fmt: skip


def test_every_tool_has_its_example_here():
    assert set(CALLS) == set(tools.names())


def test_its_name_is_one_that_every_model_provider_accepts(tool):
    assert re.fullmatch(r"[a-z][a-z0-9_]{0,63}", tool.spec.name)


def test_it_says_what_it_does(tool):
    assert 20 <= len(tool.spec.description) <= 1_000
    assert all("description" in field for field in tool.spec.parameters.get("properties", {}).values())


def test_its_parameters_are_a_closed_json_schema_of_an_object(tool):
    schema.check_spec(tool.spec)
    assert tool.spec.parameters["additionalProperties"] is False
    assert json.loads(json.dumps(tool.spec.parameters)) == tool.spec.parameters


def test_it_declares_effect_risk_and_a_time_limit_that_can_be_given(tool):
    assert isinstance(tool.spec.effect, Effect)
    assert isinstance(tool.spec.risk, Risk)
    assert 1 <= tool.spec.timeout_seconds <= conf.max_timeout_seconds()


def test_it_refuses_an_argument_it_does_not_know(tool):
    good = CALLS[tool.spec.name][0] or CALLS[tool.spec.name][1]
    schema.check_arguments(good, tool.spec.parameters)
    with pytest.raises(schema.ArgumentsError, match="no_such_field"):
        schema.check_arguments({**good, "no_such_field": 1}, tool.spec.parameters)


def test_it_refuses_a_field_of_another_type(tool):
    for field in tool.spec.parameters["properties"]:
        with pytest.raises(schema.ArgumentsError, match=field):
            schema.check_arguments({field: {"not": "expected"}}, tool.spec.parameters)


def test_its_risk_is_known_for_a_good_call(tool):
    good = CALLS[tool.spec.name][0] or CALLS[tool.spec.name][1]
    assert isinstance(tool.risk_of(good), Risk)


@pytest.mark.parametrize("tool", OFFLINE, indirect=True)
def test_its_result_is_json(tool, context):
    result = tool.run(CALLS[tool.spec.name][0], context)
    assert json.loads(json.dumps(result, allow_nan=False)) == result


@pytest.mark.parametrize("tool", OFFLINE, indirect=True)
def test_it_leaves_its_arguments_alone(tool, context):
    arguments = CALLS[tool.spec.name][0]
    before = json.dumps(arguments)
    tool.run(arguments, context)
    assert json.dumps(arguments) == before


@pytest.mark.parametrize("tool", FALLIBLE, indirect=True)
def test_what_it_cannot_do_it_says_in_one_readable_error(tool, context):
    with pytest.raises(ToolError) as error:
        tool.run(CALLS[tool.spec.name][1], context)
    assert 10 <= len(str(error.value)) <= 1_000
