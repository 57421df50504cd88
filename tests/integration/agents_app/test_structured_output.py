"""Answers with a JSON Schema: checked and repaired in the run, the same on every surface."""

import json
from typing import Any

import pytest
from channels.routing import URLRouter

from agents_app.models import Agent, Run, Step
from agents_app.providers.kinds.scripted import Reply
from agents_app.selectors import find_step_text
from agents_app.types import RunOptions
from sessions_app.identity.api_keys import create_api_key
from sessions_app.models import Turn
from sessions_app.surfaces.agent_messages.wire_format import AgentMessageType
from sessions_app.surfaces.openai import consumers as openai
from sessions_app.surfaces.rest import consumers as rest
from tests.support.agents import AgentCaller
from tests.support.conditions import eventually
from tests.support.engine import EngineRig
from tests.support.rest import LiveCaller, RestCaller
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
BAD, GOOD = Reply(('{"n": ', '"one"}')), Reply(("```json\n", '{"n": 1}', "\n```"))
LOOK = Reply(("Let me look.",), tool_calls=(ToolCall("c1", "get_current_time", "{}"),))


def test_a_rejected_answer_is_repaired_in_the_run(rig: EngineRig) -> None:
    script = rig.agent(BAD, GOOD)
    ended = rig.wait(rig.send(run=RunOptions(output_schema=SCHEMA)).run_id)
    assert (ended.run.status, ended.answer, ended.is_structured) == ("completed", '{"n": 1}', True)
    assert [(step.text, step.rejected_text) for step in ended.steps] == [("", '{"n": "one"}'), ('{"n": 1}', "")]
    assert [find_step_text(ended.run.id, step) for step in (0, 1)] == ["", '{"n": 1}']
    first, second = script.requests
    assert first.options.output_schema == second.options.output_schema == SCHEMA
    answer, correction = second.messages[-2:]
    assert (answer.role, answer.content) == ("assistant", '{"n": "one"}')
    assert correction.role == "user" and "/n: must be integer, not string" in correction.content
    # Later runs of the session do not see the rejected answer.
    script = rig.agent(Reply(("Fine.",)))
    rig.wait(rig.send("And now?").run_id)
    assert '"one"' not in str(script.requests)
    assert [turn.content for turn in Turn.objects.filter(run_id=ended.run.id, role="assistant")] == ["", '{"n": 1}']


def test_the_run_fails_after_the_agents_limit_and_keeps_the_text(rig: EngineRig) -> None:
    script = rig.agent(BAD, output_schema=SCHEMA, output_retries=1)
    ended = rig.wait(rig.send().run_id)
    assert (ended.run.status, ended.run.error_code, ended.answer) == ("failed", "invalid_output", '{"n": "one"}')
    assert "2 attempts: /n: must be integer, not string" in ended.run.error_message
    assert len(script.requests) == 2
    Agent.objects.update(output_retries=0)
    assert rig.wait(rig.send().run_id).run.error_code == "invalid_output"
    assert len(script.requests) == 3


def test_the_schema_of_a_message_wins_over_that_of_the_agent(rig: EngineRig) -> None:
    script = rig.agent(Reply(("[1]",)), output_schema=SCHEMA)
    ended = rig.wait(rig.send(run=RunOptions(output_schema={"type": "array"})).run_id)
    assert ended.answer == "[1]" and script.requests[0].options.output_schema == {"type": "array"}


def test_an_empty_schema_of_a_message_wins_over_that_of_the_agent(rig: EngineRig) -> None:
    script = rig.agent(Reply(("[1]",)), output_schema=SCHEMA)
    ended = rig.wait(rig.send(run=RunOptions(output_schema={})).run_id)
    assert ended.answer == "[1]" and script.requests[0].options.output_schema == {}


async def test_rest_returns_the_value(rig: EngineRig) -> None:
    await eventually(lambda: rig.agent(BAD, GOOD))
    caller = LiveCaller(URLRouter(rest.routes), bearer=await eventually(lambda: _key(rig)))
    body = {"senderId": "alice@example.org", "text": "How many?", "outputSchema": SCHEMA}
    status, text = await caller.ask("POST", "/api/webchat/message", body)
    answered = json.loads(text)
    assert (status, answered["data"]["text"], answered["data"]["output"]) == (200, '{"n": 1}', {"n": 1})
    run = await eventually(lambda: RestCaller(rig.owner).get(f"runs/{answered['meta']['runId']}"))
    assert (run.data["output"], run.data["text"]) == ({"n": 1}, '{"n": 1}')
    status, text = await caller.ask("POST", "/api/webchat/message", {**body, "outputSchema": {"type": "objekt"}})
    assert status == 400 and "/type: 'objekt' is not valid" in text


@pytest.mark.parametrize("by_agent", [False, True], ids=["by the call", "by the agent"])
async def test_both_openai_protocols_send_json_alone(rig: EngineRig, by_agent: bool) -> None:
    own = {"output_schema": SCHEMA} if by_agent else {}
    await eventually(lambda: rig.agent(LOOK, BAD, GOOD, LOOK, BAD, GOOD, **own))
    caller = LiveCaller(URLRouter(openai.routes), bearer=await eventually(lambda: _key(rig)))
    response_format = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
    chat: dict[str, Any] = {"model": "default", "messages": [{"role": "user", "content": "How many?"}]}
    response: dict[str, Any] = {"model": "default", "input": "How many?"}
    if not by_agent:
        chat |= {"response_format": response_format}
        response |= {"text": {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA}}}
    status, text = await caller.ask("POST", "/v1/chat/completions", chat)
    assert (status, json.loads(text)["choices"][0]["message"]["content"]) == (200, '{"n": 1}')
    status, text = await caller.ask("POST", "/v1/responses", response)
    items = json.loads(text)["output"]
    assert [item["content"][0]["text"] for item in items if item["type"] == "message"] == ['{"n": 1}']
    await eventually(lambda: rig.agent(LOOK, BAD, GOOD, LOOK, BAD, GOOD))
    _, text = await caller.ask("POST", "/v1/chat/completions", {**chat, "stream": True})
    chunks = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == '{"n": 1}'
    _, text = await caller.ask("POST", "/v1/responses", {**response, "stream": True})
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert "".join(deltas) == '{"n": 1}'
    numbers = [event["sequence_number"] for event in events]
    assert numbers == sorted(set(numbers)) and events[-1]["type"] == "response.completed"
    [done] = [event["item"] for event in events if event["type"] == "response.output_item.done"][-1:]
    assert done["content"][0]["text"] == '{"n": 1}'


async def test_an_openai_request_with_an_unusable_schema_is_refused(rig: EngineRig) -> None:
    caller = LiveCaller(URLRouter(openai.routes), bearer=await eventually(lambda: _key(rig)))
    for inner in ({"name": "answer", "schema": {"type": 7}}, "answer", None):
        wrong = {"type": "json_schema", "json_schema": inner}
        body = {"model": "default", "messages": [{"role": "user", "content": "x"}], "response_format": wrong}
        status, text = await caller.ask("POST", "/v1/chat/completions", body)
        assert status == 400 and json.loads(text)["error"]["param"] == "response_format"


async def test_an_agent_run_completes_with_json(rig: EngineRig) -> None:
    await eventually(lambda: rig.agent(BAD, GOOD))
    caller = await eventually(lambda: AgentCaller(rig.owner))
    start = {"interactive": False, "config": {"output_schema": SCHEMA}}
    started = await eventually(lambda: caller.start("How many?", **start))
    await eventually(lambda: Run.objects.filter(status="completed").exists())
    messages = await eventually(lambda: caller.messages(started["id"]))
    answers = [message for message in messages if message["t"] == AgentMessageType.COMPLETE]
    assert [message["m"] for message in answers] == ['{"n": 1}']
    assert '"one"' not in json.dumps([message.get("m") for message in messages])


def test_the_admin_and_rest_refuse_an_unusable_schema(rig: EngineRig) -> None:
    rig.agent(GOOD)
    Agent.objects.update(owner_id=rig.owner.pk)
    caller = RestCaller(rig.owner)
    answer = caller.put("agents/default", {"outputSchema": {"properties": {"a": {"type": 3}}}, "outputRetries": 1})
    assert answer.status == 400 and "/properties/a/type" in (answer.error or "")
    answer = caller.put("agents/default", {"outputSchema": SCHEMA, "outputRetries": 1})
    assert (answer.data["outputSchema"], answer.data["outputRetries"]) == (SCHEMA, 1)
    assert caller.put("agents/default", {"outputSchema": None}).data["outputSchema"] is None


def test_the_steps_of_a_repair_are_counted(rig: EngineRig) -> None:
    rig.agent(BAD, GOOD)
    ended = rig.wait(rig.send(run=RunOptions(output_schema=SCHEMA)).run_id)
    assert [step.finish_reason for step in Step.objects.filter(run_id=ended.run.id)] == ["rejected", "stop"]


def _key(rig: EngineRig) -> str:
    return create_api_key(rig.owner, "k", scopes=["all"]).key
