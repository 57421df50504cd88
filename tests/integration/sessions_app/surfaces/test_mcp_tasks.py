"""Runs as tasks of the MCP server, for clients that take tasks instead of results."""

import asyncio
from typing import Any

import pytest

from agents_app.providers.kinds.scripted import Reply
from audit_app import follow
from audit_app.kernel.database import in_db
from sessions_app.identity.api_keys import create_api_key
from tests.integration.sessions_app.surfaces.test_mcp import http
from tests.support.engine import EngineRig
from tests.support.rest import make_user
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

VERSION, TASKS = "2026-07-28", "io.modelcontextprotocol/tasks"
_QUESTION = ToolCall("call_1", "ask_user", '{"question": "Which colour?"}')
_ENDED = ("completed", "failed", "cancelled")


@pytest.fixture
def key(alice: Any) -> str:
    return create_api_key(alice, "mcp", scopes=["all"]).key


async def send(key: str, method: str, of: str, *, takes_tasks: bool = True, **params: Any) -> dict[str, Any]:
    """Send a request of the newer revision, and return the JSON-RPC answer."""
    extensions = {"extensions": {TASKS: {}}} if takes_tasks else {}
    prefix = "io.modelcontextprotocol"
    meta = {f"{prefix}/protocolVersion": VERSION, f"{prefix}/clientCapabilities": extensions}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    headers = {"MCP-Protocol-Version": VERSION, "Mcp-Method": method, "Mcp-Name": of}
    async with http(key, Accept="application/json", **headers) as inner:
        answer: dict[str, Any] = (await inner.post("/mcp", json=message)).json()
    return answer


async def begin(key: str) -> str:
    answer = await send(key, "tools/call", "ask_agent", name="ask_agent", arguments={"message": "go"})
    result = answer["result"]
    assert result["resultType"] == "task"
    return str(result["taskId"])


async def until(key: str, task_id: str, *statuses: str) -> dict[str, Any]:
    """Read the task until it has one of these statuses."""
    async with asyncio.timeout(60):
        while True:
            found: dict[str, Any] = (await send(key, "tasks/get", task_id, taskId=task_id))["result"]
            if found["status"] in (*statuses, *_ENDED):
                return found
            await asyncio.sleep(0.05)  # clients poll tasks, so the test does


async def test_a_question_of_a_task_is_answered_and_its_result_read(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(tool_calls=(_QUESTION,)), Reply(("It is blue.",)))
    task_id = await begin(key)
    asking = await until(key, task_id, "input_required")
    [(name, request)] = asking["inputRequests"].items()
    assert (request["method"], request["params"]["message"]) == ("elicitation/create", "Which colour?")
    answers = {name: {"action": "accept", "content": {"text_1": "blue"}}, "unknown": {"action": "accept"}}
    acknowledged = await send(key, "tasks/update", task_id, taskId=task_id, inputResponses=answers)
    assert acknowledged["result"]["resultType"] == "complete"
    ended = await until(key, task_id)
    assert (ended["status"], ended["result"]["structuredContent"]["text"]) == ("completed", "It is blue.")
    await follow.current_follower().aclose()


async def test_a_task_is_cancelled_with_its_run(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(tool_calls=(_QUESTION,)))
    task_id = await begin(key)
    await until(key, task_id, "input_required")
    await send(key, "tasks/cancel", task_id, taskId=task_id)
    assert (await until(key, task_id))["status"] == "cancelled"
    assert (await send(key, "tasks/cancel", task_id, taskId=task_id))["result"]["resultType"] == "complete"


async def test_tasks_of_others_are_not_found_and_read_only_keys_read(rig: EngineRig, alice: Any, key: str) -> None:
    await in_db(rig.agent, Reply(tool_calls=(_QUESTION,)))
    task_id = await begin(key)
    await until(key, task_id, "input_required")
    bob = (await in_db(create_api_key, await in_db(make_user, "bob"), "mcp", scopes=["all"])).key
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        error = (await send(bob, method, task_id, taskId=task_id))["error"]
        assert (error["code"], error["message"]) == (-32602, "There is no such run.")
    reader = (await in_db(create_api_key, alice, "reader", scopes=["mcp:read"])).key
    assert (await send(reader, "tasks/get", task_id, taskId=task_id))["result"]["status"] == "working"
    for method in ("tasks/update", "tasks/cancel"):
        assert "lacks the scope" in (await send(reader, method, task_id, taskId=task_id))["error"]["message"]


async def test_only_a_client_that_takes_tasks_gets_any(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(("Four.",)))
    arguments = {"name": "ask_agent", "arguments": {"message": "go"}}
    plain = (await send(key, "tools/call", "ask_agent", takes_tasks=False, **arguments))["result"]
    assert plain["structuredContent"]["text"] == "Four."
    run = plain["structuredContent"]["run"]
    refused = (await send(key, "tasks/get", run, takes_tasks=False, taskId=run))["error"]
    assert (refused["code"], refused["data"]) == (-32021, {"requiredCapabilities": {"extensions": {TASKS: {}}}})
    assert (await send(key, "tasks/get", "other", taskId=run))["error"]["code"] == -32020
    await follow.current_follower().aclose()
