"""The contract of every registered tool."""

import json
import re
from typing import Any
from uuid import uuid4

import pytest

from agents_app.workstreams.base import WorkstreamTool
from tools_app import conf, schema
from tools_app.builtin.http_request import HttpRequest
from tools_app.builtin.python import Python
from tools_app.registry import tools
from tools_app.types import AnyTool, BatchTool, Effect, HumanTool, Risk, ToolContext, ToolError

# One call of each tool that works anywhere, and one that its schema lets through and that must fail readably (or None).
CALLS: dict[str, tuple[dict[str, Any] | None, dict[str, Any] | None]] = {
    "agents_list": (None, {}),
    "calculator": ({"expression": "6*7"}, {"expression": "9**9**9"}),
    "date_time": ({"timezone": "UTC"}, {"timezone": "Nowhere/Else"}),
    "echo": ({"text": "hällo"}, None),
    "find_tools": ({"query": "write a file"}, None),
    "http_request": (None, {"url": "http://127.0.0.1/"}),
    "launch_workstream": (None, {"id": "a", "instruction": "b"}),
    "list_workstreams": ({}, None),
    "memory_forget": ({"key": "nothing"}, None),
    "memory_recall": ({"query": "anything"}, None),
    "memory_store": ({"key": "a", "text": "b"}, None),
    "message_workstream": (None, {"workstream": "a", "message": "b"}),
    "python": ({"code": "print(6*7)"}, None),
    "read_artifact": ({}, {"path": "../etc/passwd"}),
    "report_progress": ({"text": "Reading", "percent": 10}, None),
    "schedule": ({"action": "list"}, {"action": "create", "name": "a", "prompt": "b", "cron": "x"}),
    "run_network": (None, {"name": "a", "message": "b"}),
    "shared_memory_read": (None, {"key": "a"}),
    "shared_memory_write": (None, {"key": "a", "value": "b"}),
    "steer_workstream": (None, {"workstream": "a", "command": "pause_requested"}),
    "terminate_workstream": (None, {"workstream": "a"}),
    "update_plan": ({"tasks": [{"goal": "Look"}]}, None),
    "wait_workstreams": ({}, {"workstreams": ["a"]}),
    "web_fetch": (None, {"url": "http://127.0.0.1/"}),
    "write_artifact": ({"path": "out/a.txt", "content": "a"}, {"path": "out/..", "content": "a"}),
}
# Those that a person carries out.
QUESTIONS: dict[str, dict[str, Any]] = {
    "ask_user": {"question": "Which?", "options": ["a", "b"]},
    "ask_form": {"questions": [{"question": "Which?", "options": [{"id": "a", "label": "A"}]}]},
}
# Those whose calls are calls of other tools.
BATCHES = {"batch": {"tool": "echo", "items": [{"text": "a"}]}}
# Those that are there only when the operator says so.
OPTIONAL = {tool.spec.name: tool for tool in (HttpRequest(), Python())}
TOOLS: dict[str, AnyTool] = {**{tool.spec.name: tool for tool in tools}, **OPTIONAL}

pytestmark = pytest.mark.django_db


# Those whose good call needs no network, and those that a call can make fail.
OFFLINE = [name for name, (good, _) in CALLS.items() if good is not None]
FALLIBLE = [name for name, (_, bad) in CALLS.items() if bad is not None]


@pytest.fixture(params=sorted(TOOLS))
def tool(request) -> AnyTool:
    return TOOLS[request.param]


@pytest.fixture
def example(tool) -> dict[str, Any]:
    """Return arguments that match the tool's schema."""
    examples: dict[str, dict[str, Any]] = {**QUESTIONS, **BATCHES}
    if tool.spec.name in examples:
        return examples[tool.spec.name]
    good, bad = CALLS[tool.spec.name]
    return good if good is not None else bad or {}


@pytest.fixture
def context():
    return ToolContext(
        execution_id=uuid4(),
        run_id=uuid4(),
        session_id=uuid4(),
        agent_id="default",
        actor="user:1",
        effect_key="key",
        timeout_seconds=10,
    )


def run(tool: AnyTool, arguments: dict[str, Any], context: ToolContext) -> Any:
    """Run a tool here; those of workstreams without the event loop, whose database calls have another connection."""
    return tool.act(arguments, context) if isinstance(tool, WorkstreamTool) else tool.run(arguments, context)


def test_every_tool_has_its_example_here():
    assert {*CALLS, *QUESTIONS, *BATCHES} == set(TOOLS)


def test_its_name_is_one_that_every_model_provider_accepts(tool):
    assert re.fullmatch(r"[a-z][a-z0-9_]{0,63}", tool.spec.name)


def test_it_says_what_it_does(tool):
    assert 20 <= len(tool.spec.description) <= 1_000


def test_its_parameters_are_a_closed_json_schema_of_an_object(tool):
    schema.check_spec(tool.spec)
    assert tool.spec.parameters["additionalProperties"] is False
    assert json.loads(json.dumps(tool.spec.parameters)) == tool.spec.parameters


def test_it_declares_effect_risk_and_a_time_limit_that_can_be_given(tool):
    assert isinstance(tool.spec.effect, Effect)
    assert isinstance(tool.spec.risk, Risk)
    assert 1 <= tool.spec.timeout_seconds <= conf.max_timeout_seconds()


def test_it_refuses_an_argument_it_does_not_know(tool, example):
    schema.check_arguments(example, tool.spec.parameters)
    with pytest.raises(schema.ArgumentsError, match="no_such_field"):
        schema.check_arguments({**example, "no_such_field": 1}, tool.spec.parameters)


def test_it_refuses_a_field_of_another_type(tool):
    for field in tool.spec.parameters["properties"]:
        with pytest.raises(schema.ArgumentsError, match=field):
            is_object = tool.spec.parameters["properties"][field].get("type") == "object"
            other = [] if is_object else {"not": ["expected"]}
            schema.check_arguments({field: other}, tool.spec.parameters)


def test_risk_and_effect_are_known_for_a_good_call(tool, example):
    assert isinstance(tool.risk_of(example), Risk)
    assert isinstance(tool.effect_of(example), Effect)


def test_a_question_and_its_answer_are_json(tool, example):
    if isinstance(tool, HumanTool):
        questions = tool.questions_of(example)
        assert questions[0].text and json.dumps(tool.answer_of(questions, "whatever a person writes"))
    else:
        assert tool.spec.name in {*CALLS, *BATCHES}


def test_the_calls_of_a_batch_are_json(tool, example):
    if isinstance(tool, BatchTool):
        (call,) = tool.calls_of(example)
        assert (call.name, json.loads(call.arguments)) == ("echo", {"text": "a"})


@pytest.mark.parametrize("tool", OFFLINE, indirect=True)
def test_its_result_is_json(tool, context):
    result = run(tool, CALLS[tool.spec.name][0], context)
    assert json.loads(json.dumps(result, allow_nan=False)) == result


@pytest.mark.parametrize("tool", OFFLINE, indirect=True)
def test_it_leaves_its_arguments_alone(tool, context):
    arguments = CALLS[tool.spec.name][0]
    before = json.dumps(arguments)
    run(tool, arguments, context)
    assert json.dumps(arguments) == before


def test_its_check_accepts_a_call_that_works(tool, example):
    good = CALLS.get(tool.spec.name, (example,))[0]
    if good is not None:
        tool.check(good)


# Their arguments alone show that the bad call cannot work.
@pytest.mark.parametrize(
    "tool", ["date_time", "http_request", "read_artifact", "web_fetch", "write_artifact"], indirect=True
)
def test_its_check_refuses_a_call_that_cannot_work(tool):
    with pytest.raises(ToolError):
        tool.check(CALLS[tool.spec.name][1])


@pytest.mark.parametrize("tool", FALLIBLE, indirect=True)
def test_what_it_cannot_do_it_says_in_one_readable_error(tool, context):
    with pytest.raises(ToolError) as error:
        run(tool, CALLS[tool.spec.name][1], context)
    assert 10 <= len(str(error.value)) <= 1_000
