"""Messages of the MCP server before a result: progress, logs, requests to the client's user, changed resources."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
import pytest
import uvicorn
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from agents_app.providers.kinds.scripted import Reply
from audit_app import follow
from audit_app.kernel.database import in_db
from sessions_app.identity.api_keys import create_api_key
from tests.integration.sessions_app.surfaces.test_mcp import APPLICATION, call, http
from tests.support.engine import EngineRig
from tests.support.rest import make_session, make_user
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

_SCHEDULE = ToolCall("call_1", "schedule", '{"action": "create", "name": "x", "prompt": "y", "cron": "0 9 * * *"}')
_QUESTION = ToolCall("call_2", "ask_user", '{"question": "Which colour?", "options": ["blue", "red"]}')
_TIME = ToolCall("call_3", "current_time", "{}")
EMPTY = types.EmptyResult
MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])


@pytest.fixture
def key(alice: Any) -> str:
    return create_api_key(alice, "mcp", scopes=["all"]).key


@asynccontextmanager
async def connected(key: str, mode: str, **callbacks: Any) -> AsyncIterator[Client]:
    """Connect the SDK's client over a real socket: httpx's transport in memory holds streams back to their end."""
    server = uvicorn.Server(uvicorn.Config(APPLICATION, port=0, lifespan="off", log_config=None))
    serving = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.sleep(0)
    port = server.servers[0].sockets[0].getsockname()[1]
    inner = httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=60)
    transport = streamable_http_client(f"http://localhost:{port}/mcp", http_client=inner)
    async with inner, Client(transport, mode=mode, **callbacks) as mcp:
        yield mcp
    server.should_exit = True
    await serving
    await follow.current_follower().aclose()


class Person:
    """Answers forms by the first choice, and remembers what was asked."""

    def __init__(self, action: str = "accept") -> None:
        self.asked: list[str] = []
        self.action = action

    async def __call__(self, context: Any, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        self.asked.append(params.message)
        properties = params.requested_schema["properties"]
        offered = {name: field.get("enum") or field.get("oneOf") for name, field in properties.items()}
        first = {name: given[0] for name, given in offered.items() if given}
        chosen = {name: given["const"] if isinstance(given, dict) else given for name, given in first.items()}
        return types.ElicitResult(action=self.action, content=chosen if self.action == "accept" else None)


@MODES
async def test_the_clients_user_decides_and_answers(rig: EngineRig, key: str, settings: Any, mode: str) -> None:
    settings.KOMAND_APPROVERS = "owners"
    replies = [Reply(tool_calls=(_SCHEDULE,)), Reply(tool_calls=(_QUESTION,)), Reply(("It is blue.",))]
    await in_db(rig.agent, *replies)
    person = Person()
    async with connected(key, mode, elicitation_callback=person) as mcp:
        result = (await mcp.call_tool("ask_agent", {"message": "go", "wait_seconds": 60})).structured_content
    assert (result["status"], result["text"]) == ("completed", "It is blue.")
    assert "asks to call schedule" in person.asked[0]
    assert person.asked[1].startswith("Which colour?")
    assert len(person.asked) == 2
    history = await call(key, "get_session_history", session=result["session"])
    assert [turn["text"] for turn in history["turns"]][:2] == ["go", "blue"]


@MODES
async def test_a_declined_form_leaves_the_ask_to_the_other_tools(rig: EngineRig, key: str, mode: str) -> None:
    await in_db(rig.agent, Reply(tool_calls=(_QUESTION,)), Reply(("Fine.",)))
    person = Person("decline")
    async with connected(key, mode, elicitation_callback=person) as mcp:
        result = (await mcp.call_tool("ask_agent", {"message": "go", "wait_seconds": 60})).structured_content
    assert [asked["kind"] for asked in result["asks"]] == ["question"]
    assert len(person.asked) == 1


async def test_the_state_of_another_user_and_altered_state_are_refused(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(tool_calls=(_QUESTION,)), Reply(("Blue.",)))
    arguments = {"message": "go", "wait_seconds": 60}
    bob = (await in_db(create_api_key, await in_db(make_user, "bob"), "mcp", scopes=["all"])).key
    async with connected(key, "auto", elicitation_callback=Person()) as mcp:
        asked = await mcp.session.call_tool("ask_agent", arguments, allow_input_required=True)
        state, [(name, _)] = asked.request_state, asked.input_requests.items()
        answers = {name: types.ElicitResult(action="accept", content={"choice_1": "blue"})}
        for wrong in (state[:-4] + "AAAA", "x"):
            with pytest.raises(MCPError, match="requestState"):
                await mcp.session.call_tool("ask_agent", arguments, input_responses=answers, request_state=wrong)
    async with connected(bob, "auto", elicitation_callback=Person()) as other:
        with pytest.raises(MCPError, match="requestState"):
            await other.session.call_tool("ask_agent", arguments, input_responses=answers, request_state=state)
    async with connected(key, "auto", elicitation_callback=Person()) as mcp:
        result = await mcp.session.call_tool("ask_agent", arguments, input_responses=answers, request_state=state)
    assert result.structured_content["text"] == "Blue."


@MODES
async def test_progress_and_log_messages_arrive_before_the_result(rig: EngineRig, key: str, mode: str) -> None:
    await in_db(rig.agent, Reply(tool_calls=(_TIME,)), Reply(("Noon.",)))
    steps: list[tuple[float, str | None]] = []
    logged: list[str] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        steps.append((done, message))

    async def on_log(params: types.LoggingMessageNotificationParams) -> None:
        logged.append(str(params.data))

    async with connected(key, mode, logging_callback=on_log) as mcp:
        meta = {"io.modelcontextprotocol/logLevel": "info"} if mode == "auto" else None
        arguments = {"message": "go", "wait_seconds": 60}
        result = await mcp.call_tool("ask_agent", arguments, progress_callback=on_progress, meta=meta)
    assert result.structured_content["text"] == "Noon."
    assert "current_time is called." in [message for _, message in steps]
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    assert "current_time is called." in logged


async def test_a_client_without_streams_gets_json(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(("Four.",)))
    arguments = {"name": "ask_agent", "arguments": {"message": "go"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": arguments}
    async with http(key, Accept="application/json") as inner:
        answer = await inner.post("/mcp", json=message)
    await follow.current_follower().aclose()
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["result"]["structuredContent"]["text"] == "Four."


async def test_a_session_belongs_to_its_credential_and_an_unknown_one_is_no_obstacle(alice: Any, key: str) -> None:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    other = (await in_db(create_api_key, alice, "other", scopes=["all"])).key
    both = "application/json, text/event-stream"
    async with http(key, Accept=both) as inner, http(other, Accept=both) as foreign:
        opened = (await inner.post("/mcp", json=begin)).headers["mcp-session-id"]
        assert (await foreign.post("/mcp", json=listing, headers={"Mcp-Session-Id": opened})).status_code == 404
        unknown = await inner.post("/mcp", json=listing, headers={"Mcp-Session-Id": "from-before-a-restart"})
        assert unknown.json()["result"]["tools"]
        assert (await inner.delete("/mcp", headers={"Mcp-Session-Id": opened})).status_code == 200
        assert (await inner.post("/mcp", json=listing, headers={"Mcp-Session-Id": opened})).status_code == 404
        assert (await inner.get("/mcp", headers={"Mcp-Session-Id": "unknown"})).status_code == 404


async def test_a_change_of_a_session_is_notified_to_its_owner_alone(rig: EngineRig, alice: Any, key: str) -> None:
    await in_db(rig.agent, Reply(("Four.",)))
    session = await in_db(make_session, alice)
    foreign = await in_db(make_session, await in_db(make_user, "bob"))
    uri = f"komand://sessions/{session.pk}"
    async with connected(key, "auto") as mcp:
        with pytest.raises(MCPError, match="no such session"):
            async with mcp.listen(resource_subscriptions=[f"komand://sessions/{foreign.pk}"]) as events:
                await anext(aiter(events))
        async with mcp.listen(resource_subscriptions=[uri]) as events:
            await mcp.call_tool("ask_agent", {"message": "go", "session": session.key})
            async with asyncio.timeout(60):
                event = await anext(aiter(events))
    assert event.uri == uri


async def test_a_legacy_client_is_notified_in_its_stream(rig: EngineRig, alice: Any, key: str) -> None:
    await in_db(rig.agent, Reply(("Four.",)), Reply(("Five.",)))
    session = await in_db(make_session, alice)
    uri, changed = f"komand://sessions/{session.pk}", asyncio.Event()

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification) and str(message.params.uri) == uri:
            changed.set()

    async with connected(key, "legacy", message_handler=on_message) as mcp:
        await mcp.session.send_request(types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri)), EMPTY)
        await mcp.call_tool("ask_agent", {"message": "go", "session": session.key})
        async with asyncio.timeout(60):
            await changed.wait()
        wanted = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri))
        await mcp.session.send_request(wanted, EMPTY)
        changed.clear()
        await mcp.call_tool("ask_agent", {"message": "go", "session": session.key})
    assert not changed.is_set()
