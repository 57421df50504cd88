"""`ag-ui-validate` on recorded streams of all kinds of events, and on the live endpoint with its rules of transport."""

import json
import subprocess
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from tests.support.live_server import LiveKomand
from tests.surfaces import pypi

pytestmark = pytest.mark.npm

# Other features cannot be seen in a stream, or need events that are not sent: docs/ag-ui.md.
FEATURES = ("agentic-chat", "backend-tool-rendering", "human-in-the-loop", "shared-state")
ASK = '[[tool=ask_user args={"question":"Which?","options":["red","blue"]}]]'
STORE = '[[tool=memory_store args={"key":"car","text":"blue"}]]'
PLAN = '[[tool=update_plan args={"tasks":[{"id":1,"goal":"Look"}]}]]'
CHILD = f"[[tool=launch_workstream args={json.dumps({'id': 'b', 'instruction': 'echo hello'})}]]"
WEATHER = {"name": "get_weather", "description": "Read the weather.", "parameters": {"type": "object"}}
CALL = '[[tool=get_weather args={"city":"Oslo"}]]'


def validate(*arguments: str, recorded: str = "") -> dict[str, Any]:
    """Return the report of the program, which has found no error and no warning."""
    command = [str(pypi.foreign()), "-m", "ag_ui_validate.cli", *arguments, "--json", "--max-warnings", "0"]
    done = subprocess.run(command, input=recorded, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-1000:]}\n{recorded[-3000:]}"
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.fixture(scope="module")
def record(live_komand: LiveKomand) -> Callable[..., str]:
    """Return a function that runs an agent and returns the stream. resume: answers by the reason of an interrupt."""
    headers = {"Authorization": f"Bearer {live_komand.api_key}"}
    body = {"agentId": "planner", "name": "Planner", "systemPrompt": "x", "toolProfile": "teams"}
    httpx2.post(f"{live_komand.url}/api/agents", json=body, headers=headers, timeout=30).raise_for_status()

    def record(thread: str, *messages: dict[str, Any], agent: str = "planner", **more: Any) -> str:
        request = {"threadId": thread, "runId": uuid4().hex, "state": {}, "tools": [], "context": [], **more}
        request |= {"messages": [{"id": uuid4().hex, **message} for message in messages], "forwardedProps": {}}
        answer = httpx2.post(f"{live_komand.url}/ag-ui/agents/{agent}", json=request, headers=headers, timeout=60)
        return answer.text

    return record


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def events(stream: str) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("data: ")) for line in stream.splitlines() if line.startswith("data: ")]


def last(stream: str) -> dict[str, Any]:
    return events(stream)[-1]


def test_all_features_of_recorded_streams_are_valid(record: Callable[..., str]) -> None:
    streams = [
        record("v-text", user('[[reasoning="Hm." text="Hello there"]]')),
        record("v-tool", user("what is 17*23?"), agent="default"),
        record("v-plan", user(PLAN)),
        record("v-child", user(CHILD)),
        record("v-failure", user("[[status=400]]")),
    ]
    front = record("v-front", user(CALL), tools=[WEATHER])
    call_id = last(front)["outcome"]["pendingToolCallIds"][0]
    streams.append(front + record("v-front", {"role": "tool", "toolCallId": call_id, "content": "4"}, tools=[WEATHER]))
    for thread, text, payload in (("v-ask", ASK, {"answer": "blue"}), ("v-approve", STORE, {"approved": True})):
        asking = record(thread, user(text), agent="default")
        answer = {
            "interruptId": last(asking)["outcome"]["interrupts"][0]["id"],
            "status": "resolved",
            "payload": payload,
        }
        messages = [event["messages"] for event in events(asking) if event["type"] == "MESSAGES_SNAPSHOT"][-1]
        streams.append(asking + record(thread, *messages, agent="default", resume=[answer]))
        assert last(streams[-1])["outcome"]["type"] == "success"
    exercised = set()
    for stream in streams:
        features = FEATURES if "STATE_" in stream else FEATURES[:-1]
        report = validate("-", "--features", ",".join(features), recorded=stream)
        exercised |= {name for name, status in report["features"].items() if status == "exercised"}
    assert exercised == set(FEATURES)


def test_the_live_endpoint_is_valid_by_all_rules(live_komand: LiveKomand) -> None:
    url = f"{live_komand.url}/ag-ui/agents/default"
    report = validate(url, "--header", f"Authorization: Bearer {live_komand.api_key}", "--timeout", "30")
    assert report["eventCount"] > 5 and [each["rule"] for each in report["skipped"]] == ["AGUI305"]
