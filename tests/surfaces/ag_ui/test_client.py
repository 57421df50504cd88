"""The real `@ag-ui/client` against a whole installation. It enforces the order of events; its schemas check each."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from tests.support.live_server import LiveKomand
from tests.surfaces import npm

pytestmark = pytest.mark.npm

Turn = dict[str, Any]
Run = Callable[..., list[Turn]]
WEATHER = {
    "name": "get_weather",
    "description": "Read the weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return npm.install(tmp_path_factory.mktemp("npm"), "@ag-ui/client@1.0.0", "@ag-ui/core@1.0.0")


@pytest.fixture(scope="module")
def run(modules: Path, live_komand: LiveKomand) -> Run:
    script = Path(__file__).with_name("client.mjs")
    key = live_komand.api_key

    def run(*turns: Turn, agent: str = "default", thread: str = "") -> list[Turn]:
        request = {"url": live_komand.url, "key": key, "agent": agent, "thread": thread or uuid4().hex, "turns": turns}
        found: list[Turn] = npm.run_script(script, modules, request)
        assert [turn["invalid"] for turn in found] == [[] for _ in turns]
        return found

    return run


@pytest.fixture(scope="module")
def team(live_komand: LiveKomand) -> str:
    body = {"agentId": "pair", "name": "Pair", "systemPrompt": "x", "toolProfile": "teams"}
    headers = {"Authorization": f"Bearer {live_komand.api_key}"}
    assert httpx2.post(f"{live_komand.url}/api/agents", json=body, headers=headers).is_success
    return "pair"


def last_text(turn: Turn) -> str:
    return str(turn["messages"][-1]["content"])


def outcome(turn: Turn) -> str:
    assert turn["error"] is None and turn["events"][-1]["type"] == "RUN_FINISHED", turn
    return str(turn["events"][-1]["outcome"]["type"])


def test_text_thinking_and_tools_of_the_agent(run: Run) -> None:
    # Thinking is shown live alone: it comes once the client follows.
    first, second = run(
        {"text": '[[reasoning="Hm." text="Hello there" first=1]]'},
        {"text": '[[tool=calculator args={"expression":"6*7"}]]'},
    )
    assert [message["role"] for message in first["messages"]] == ["user", "reasoning", "assistant"]
    assert last_text(first) == "Hello there" and outcome(first) == outcome(second) == "success"
    roles = [message["role"] for message in second["messages"][3:]]
    assert roles == ["user", "assistant", "tool", "assistant"] and "42" in last_text(second)


@pytest.mark.parametrize(("payload", "result"), [({"approved": True}, '"stored": true'), (None, "denied")])
def test_an_approval_is_answered_by_the_next_run(run: Run, payload: Any, result: str) -> None:
    asked, rest = run(
        {"text": '[[tool=memory_store args={"key":"car","text":"blue"}]]'}, {"resume": {"tool_call": payload}}
    )
    assert outcome(asked) == "interrupt" and len(asked["interrupts"]) == 1
    assert outcome(rest) == "success" and rest["interrupts"] == []
    (answer,) = [message["content"] for message in rest["messages"] if message["role"] == "tool"]
    assert result in answer


def test_a_question_is_answered_by_the_next_run(run: Run) -> None:
    asked, rest = run(
        {"text": '[[tool=ask_user args={"question":"Which?","options":["red","blue"]}]]'},
        {"resume": {"input_required": {"answer": "blue"}}},
    )
    assert asked["interrupts"][0]["message"] == "Which?"
    assert outcome(rest) == "success" and "blue" in last_text(rest)


def test_a_tool_of_the_front_end_takes_two_runs(run: Run) -> None:
    asked, rest = run(
        {"text": '[[tools=[["calculator",{"expression":"6*7"}],["get_weather",{"city":"Oslo"}]]]]', "tools": [WEATHER]},
        {"outputs": {"get_weather": "18 degrees"}, "tools": [WEATHER]},
    )
    assert outcome(asked) == "success" and len(asked["events"][-1]["outcome"]["pendingToolCallIds"]) == 1
    assert outcome(rest) == "success" and "18 degrees" in last_text(rest) and "42" in last_text(rest)


def test_a_connection_that_breaks_is_continued_with_the_same_run(run: Run, live_komand: LiveKomand) -> None:
    thread, run_id = uuid4().hex, uuid4().hex
    cut, rest = run({"text": "[[tokens=60 rate=20]]", "runId": run_id, "cutAfter": 5}, {"runId": run_id}, thread=thread)
    whole = "".join(f"tok{number} " for number in range(60))
    assert last_text(cut) != whole and last_text(rest) == whole and outcome(rest) == "success"
    (fresh,) = run({"runId": run_id}, thread=thread)
    assert last_text(fresh) == whole
    shown = {turn["events"][0]["metadata"]["komand"]["runId"] for turn in (cut, rest, fresh)}
    assert len(shown) == 1


def test_a_workstream_is_a_subagent_that_can_ask(run: Run, team: str) -> None:
    asking = json.dumps({"id": "b", "instruction": '[[tool=ask_user args={"question":"Colour?"}]]'})
    task = f"[[tool=launch_workstream args={asking}]]"
    asked, rest = run({"text": task}, {"resume": {"input_required": {"answer": "blue"}}}, agent=team)
    (interrupt,) = asked["interrupts"]
    (started,) = [event for event in rest["events"] if event["type"] == "SUBAGENT_STARTED"]
    assert interrupt["subagentRunId"] == started["subagentRunId"] and started["name"] == "b"
    of_child = [message for message in rest["messages"] if message.get("subagentRunId") == started["subagentRunId"]]
    assert any("blue" in str(message.get("content")) for message in of_child)
    assert outcome(asked) == "interrupt" and outcome(rest) == "success"


def test_the_plan_is_state(run: Run, team: str) -> None:
    (turn,) = run({"text": '[[tool=update_plan args={"tasks":[{"id":1,"goal":"Look"}]}]]'}, agent=team)
    assert turn["state"]["plan"][0]["goal"] == "Look" and outcome(turn) == "success"


def test_an_unknown_agent_is_refused(run: Run) -> None:
    (turn,) = run({"text": "hello"}, agent="nobody")
    assert "404" in turn["error"] and "unknown_agent" in turn["error"]
