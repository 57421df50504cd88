"""Komand as an MCP server, called by the official client: admission, tools, results."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from django.conf import settings
from django.test import Client as DjangoClient
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from agents_app.services import NewChild, start_child
from agents_app.types import RunStatus
from agents_app.types.child_runs import ChildSpec
from audit_app import follow
from audit_app.kernel.database import in_db
from audit_app.kernel.ids import new_id
from sessions_app.identity.api_keys import create_api_key
from sessions_app.models import Turn
from sessions_app.surfaces.mcp.consumers import McpEndpoint
from tests.support.engine import EngineRig
from tests.support.live_server import LiveKomand
from tests.support.rest import make_run, make_session, make_user
from tests.support.team_script import TeamScript
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

_SCHEDULE = ToolCall("call_2", "schedule", '{"action": "create", "name": "x", "prompt": "y", "cron": "0 9 * * *"}')
_QUESTION = ToolCall("call_3", "ask_user", '{"question": "Which colour?"}')
APPLICATION = McpEndpoint.as_asgi()
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture
def key(alice: Any) -> str:
    return create_api_key(alice, "mcp", scopes=["all"]).key


def http(key: str = "", **headers: str) -> httpx2.AsyncClient:
    """Return an HTTP client of the endpoint, connected in memory."""
    sent = {**({"Authorization": f"Bearer {key}"} if key else {}), **headers}
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(APPLICATION), headers=sent, base_url="http://localhost")


@asynccontextmanager
async def client(key: str, mode: str = "auto") -> AsyncIterator[Client]:
    """Connect the SDK's client."""
    inner = http(key)
    transport = streamable_http_client("http://localhost/mcp", http_client=inner)
    async with inner, Client(transport, mode=mode) as mcp:
        yield mcp
    await follow.current_follower().aclose()


async def call(key: str, tool: str, **arguments: Any) -> Any:
    """Return the structured result of a call, or the text of its error."""
    async with client(key) as mcp:
        result = await mcp.call_tool(tool, arguments)
    return result.content[0].text if result.is_error else result.structured_content


async def test_discovery_names_the_server_in_its_meta(key: str) -> None:
    fields = {"protocolVersion": "2026-07-28", "clientInfo": {"name": "x", "version": "1"}, "clientCapabilities": {}}
    meta = {f"io.modelcontextprotocol/{name}": value for name, value in fields.items()}
    request = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28"}
    async with http(key, **headers, **{"Mcp-Method": "server/discover"}) as inner:
        answer = await inner.post("/mcp", json=request)
    data = answer.text.partition("data: ")[2] or answer.text
    named = json.loads(data)["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]
    assert (named["name"], named["version"]) == ("komand", settings.KOMAND_VERSION)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_current_and_legacy_clients_list_the_tools(key: str, mode: str) -> None:
    async with client(key, mode) as mcp:
        listed = await mcp.list_tools()
        answer = await mcp.call_tool("list_sessions", {})
    assert [tool.name for tool in listed.tools] == [
        "ask_agent",
        "decide_approval",
        "get_run",
        "get_session_history",
        "list_agents",
        "list_sessions",
        "list_workstreams",
        "message_run",
    ]
    writing = [tool.name for tool in listed.tools if not tool.annotations.read_only_hint]
    assert writing == ["ask_agent", "decide_approval", "message_run"]
    assert answer.structured_content == {"sessions": []}


async def test_a_client_lists_workstreams_and_writes_to_one(key: str, alice: Any) -> None:
    root = await in_db(make_run, await in_db(make_session, alice), RunStatus.WAITING, waiting_on="children")
    new = NewChild(new_id(), root.pk, "deep", ChildSpec("Deep one", "Dig.", is_interactive=True))
    child = await in_db(start_child, new)
    listed = await call(key, "list_workstreams", run=str(root.pk))
    shown = {"run": str(child.pk), "name": "Deep one", "state": "running", "phase": "planning"}
    assert listed == {"workstreams": [shown]}
    assert await call(key, "message_run", run=str(child.pk), message="And then?") == {"run": str(child.pk)}
    sent = await in_db(lambda: list(child.messages.values_list("kind", "text")))
    assert sent[-1] == ("person", "And then?")
    assert "Write to the session instead" in await call(key, "message_run", run=str(root.pk), message="Hi")


@pytest.mark.parametrize("bearer", ["", "x", "sk-user-x"])
async def test_a_missing_or_wrong_key_is_401_with_www_authenticate(bearer: str) -> None:
    async with http(bearer) as inner:
        answer = await inner.post("/mcp", json=PING)
    assert (answer.status_code, answer.headers["www-authenticate"][:6]) == (401, "Bearer")
    assert list(answer.json()) == ["jsonrpc", "id", "error"]


async def test_the_metadata_of_the_protected_resource_is_public(settings: Any) -> None:
    settings.KOMAND_PUBLIC_URL = "https://komand.example.com"
    async with http() as inner:
        refused = (await inner.post("/mcp", json=PING)).headers["www-authenticate"]
    path = "/.well-known/oauth-protected-resource/mcp"
    assert refused == f'Bearer realm="komand", resource_metadata="https://komand.example.com{path}"'
    answer = await in_db(DjangoClient().get, path)
    assert answer.json()["resource"] == "https://komand.example.com/mcp"
    assert answer.json()["scopes_supported"] == ["mcp", "mcp:read"]


async def test_the_cookie_of_the_chat_page_does_not_authenticate(alice: Any) -> None:
    def log_in() -> str:
        page = DjangoClient()
        page.force_login(alice)
        return page.cookies[settings.SESSION_COOKIE_NAME].value

    cookie = f"{settings.SESSION_COOKIE_NAME}={await in_db(log_in)}"
    async with http(Cookie=cookie) as inner:
        assert (await inner.post("/mcp", json=PING)).status_code == 401


async def test_other_methods_and_bodies_are_refused(key: str) -> None:
    async with http(key, Accept="application/json, text/event-stream") as inner:
        get = await inner.get("/mcp")
        assert (get.status_code, get.headers["allow"]) == (405, "POST, GET, DELETE")
        assert (await inner.post("/mcp", json=[1])).status_code == 400
        assert (await inner.post("/mcp", content=b"x", headers={"Content-Type": "text/plain"})).status_code == 415


async def test_a_read_only_key_cannot_send_messages(alice: Any) -> None:
    key = (await in_db(create_api_key, alice, "reader", scopes=["read"])).key
    assert await call(key, "list_sessions") == {"sessions": []}
    refusal = await call(key, "ask_agent", message="hello")
    assert refusal.startswith("This API key lacks the scope `mcp`.")


async def test_invalid_arguments_are_explained(key: str) -> None:
    assert "message is missing" in await call(key, "ask_agent")
    assert "limit: must keep to maximum 200" in await call(key, "list_sessions", limit=1000)
    assert "There is no tool" in await call(key, "drop_tables")


async def test_own_sessions_are_listed_and_those_of_others_are_not_found(alice: Any, key: str) -> None:
    own = await in_db(make_session, alice, turns=4)
    bob = await in_db(make_user, "bob")
    foreign = await in_db(make_session, bob, turns=2)
    run = await in_db(make_run, foreign)
    listed = await call(key, "list_sessions")
    assert [session["session"] for session in listed["sessions"]] == [own.key]
    history = await call(key, "get_session_history", session=own.key, limit=2)
    assert [(turn["role"], turn["text"]) for turn in history["turns"]] == [("user", "turn 2"), ("assistant", "turn 3")]
    for wanted in (foreign.key, str(foreign.pk), "no-such"):
        assert await call(key, "get_session_history", session=wanted) == "There is no such session."
        assert await call(key, "ask_agent", session=wanted, message="hello") == "There is no such session."
    assert await call(key, "get_run", run=str(run.pk)) == "There is no such run."
    assert await in_db(Turn.objects.filter(session=foreign).count) == 2


async def test_a_second_message_continues_the_session(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(("Four.",)), Reply(("And five.",)))
    agents = await call(key, "list_agents")
    assert agents["agents"][0]["agent"] == "default"
    first = await call(key, "ask_agent", message="two and two?")
    assert (first["status"], first["text"]) == ("completed", "Four.")
    second = await call(key, "ask_agent", message="and three?", session=first["session"])
    assert (second["session"], second["text"]) == (first["session"], "And five.")
    history = await call(key, "get_session_history", session=first["session"])
    assert [turn["text"] for turn in history["turns"]] == ["two and two?", "Four.", "and three?", "And five."]
    assert await call(key, "ask_agent", message="hello", agent="nobody") == "There is no agent 'nobody'."


async def test_who_asks_a_person_is_named_and_answered(rig: EngineRig, key: str, settings: Any) -> None:
    settings.KOMAND_APPROVERS = "owners"
    team = {"Deep one": [Reply(tool_calls=(_SCHEDULE,)), Reply(tool_calls=(_QUESTION,)), Reply(("Blue.",))]}
    launch = ToolCall("call_1", "launch_workstream", json.dumps({"id": "b", "name": "Deep one", "instruction": "Ask."}))
    main = [Reply(tool_calls=(launch,)), Reply(("Wait.",)), Reply(("It is blue.",))]
    await in_db(rig.agent, Reply(), tool_profile="teams")
    ScriptedProvider.scripts["script"] = TeamScript(main, team)
    started = await call(key, "ask_agent", message="go", wait_seconds=60)
    (asked,) = started["asks"]
    assert (asked["kind"], asked["asked_by"], asked["tool"]) == ("approval", "Deep one", "schedule")
    assert "allow_once" in asked["decisions"]
    decided = await call(key, "decide_approval", approval=asked["approval"], decision="allow_once")
    assert decided["status"] == "approved"
    later = await call(key, "get_run", run=started["run"], wait_seconds=60)
    assert [each["text"] for each in later["asks"]] == ["Deep one: Which colour?"]
    answered = await call(key, "ask_agent", session=started["session"], message="blue", wait_seconds=60)
    assert (answered["run"], answered["text"]) == (started["run"], "It is blue.")


async def test_an_answer_that_takes_longer_is_fetched_later(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(("Four.",)))
    started = await call(key, "ask_agent", message="two and two?", wait_seconds=0)
    later = await call(key, "get_run", run=started["run"], wait_seconds=20)
    assert (later["status"], later["text"], later["session"]) == ("completed", "Four.", started["session"])


async def test_the_real_server_answers_the_real_client(live_komand: LiveKomand) -> None:
    headers = {"Authorization": f"Bearer {live_komand.api_key}"}
    inner = httpx2.AsyncClient(headers=headers, timeout=30)
    transport = streamable_http_client(f"{live_komand.url}/mcp", http_client=inner)
    async with inner, Client(transport) as mcp:
        answer = await mcp.call_tool("ask_agent", {"message": "hello [[tokens=3]]"})
    assert answer.structured_content["status"] == "completed"
    assert answer.structured_content["text"]


async def test_arguments_are_read_without_nul_characters(key: str) -> None:
    assert await call(key, "ask_agent", session="x\0", message="Hi") == "There is no such session."
    assert await call(key, "ask_agent", agent="x\0", message="Hi") == "There is no agent 'x'."
