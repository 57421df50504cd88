"""Clients that leave before the end of an answer that they have asked for, on every surface that answers so."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from channels.routing import URLRouter
from django.contrib.auth.models import User

from agents_app.models import Agent, Run
from audit_app.kernel.database import in_db
from sessions_app.identity.api_keys import create_api_key
from sessions_app.surfaces.base.cors import cors_headers
from sessions_app.surfaces.base.openapi.operations import STOP_ON_DISCONNECT
from sessions_app.surfaces.base.surface import surfaces
from tests.support.conditions import eventually, happens
from tests.support.rest import LiveCaller

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

HEADER = STOP_ON_DISCONNECT.name
TEXT = [{"role": "user", "content": "Hi"}]
_MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hi"}]}


@dataclass(frozen=True)
class Way:
    """A request for an answer. stops: a client that leaves stops the run by default. streams: so is it answered."""

    path: str
    body: dict[str, Any]
    stops: bool = False
    streams: bool = False


WAYS = {
    "completion": Way("/v1/chat/completions", {"model": "default", "messages": TEXT}, stops=True),
    "chunks": Way(
        "/v1/chat/completions", {"model": "default", "messages": TEXT, "stream": True}, stops=True, streams=True
    ),
    "response": Way("/v1/responses", {"model": "default", "input": "Hi", "stream": True}, stops=True, streams=True),
    "rest": Way("/api/webchat/message", {"senderId": "{user}", "text": "Hi", "agentId": "default"}),
    "ag_ui": Way(
        "/ag-ui/agents/default", {"threadId": "t", "runId": "r", "messages": [{"id": "1", **TEXT[0]}]}, streams=True
    ),
    "a2a": Way("/a2a/default/message:send", {"message": _MESSAGE}),
    "a2a_stream": Way("/a2a/default/message:stream", {"message": _MESSAGE}, streams=True),
    "a2a_rpc": Way(
        "/a2a/default", {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": _MESSAGE}}
    ),
    "zeroclaw": Way("/zeroclaw/webhook", {"message": "Hi"}),
}


@pytest.fixture
def caller(default_agent: Agent, alice: User) -> LiveCaller:
    routes = [route for surface in surfaces for route in surface.routes()]
    return LiveCaller(URLRouter(routes), bearer=create_api_key(alice, "k", scopes=["all"]).key)


async def _left(caller: LiveCaller, way: Way, alice: User, **headers: str) -> Run:
    """Ask, leave once the message is stored, and return the run. No worker answers it."""
    body = {**way.body, "senderId": str(alice.pk)} if "senderId" in way.body else way.body
    asking = asyncio.create_task(caller.ask("POST", way.path, body, A2A_Version="1.0", **headers))
    await eventually(Run.objects.exists)
    await happens(lambda: not way.streams or len(caller.sent) >= 3)
    caller.leave()
    await asking
    return await in_db(Run.objects.get)


@pytest.mark.parametrize("name", WAYS)
async def test_what_becomes_of_the_run_is_the_default_of_the_surface(
    caller: LiveCaller, alice: User, name: str
) -> None:
    run = await _left(caller, WAYS[name], alice)
    assert run.status == ("cancelled" if WAYS[name].stops else "queued")


@pytest.mark.parametrize("wish", ["true", "false"])
@pytest.mark.parametrize("name", WAYS)
async def test_the_header_decides_before_the_default(caller: LiveCaller, alice: User, name: str, wish: str) -> None:
    run = await _left(caller, WAYS[name], alice, **{HEADER: wish})
    assert run.status == ("cancelled" if wish == "true" else "queued")


@pytest.mark.parametrize("name", WAYS)
async def test_another_value_is_refused_before_anything_is_stored(caller: LiveCaller, name: str) -> None:
    status, answer = await caller.ask("POST", WAYS[name].path, WAYS[name].body, A2A_Version="1.0", **{HEADER: "1"})
    assert status == 400 and HEADER in answer
    assert not await in_db(Run.objects.exists)


async def test_a_response_in_the_background_continues_in_any_case(caller: LiveCaller, alice: User) -> None:
    way = Way("/v1/responses", {**WAYS["response"].body, "background": True}, streams=True)
    assert (await _left(caller, way, alice, **{HEADER: "true"})).status == "queued"


async def test_a_retry_of_the_sdk_gets_the_run_that_continued(caller: LiveCaller, alice: User) -> None:
    run = await _left(caller, WAYS["completion"], alice, **{HEADER: "false"})
    again = LiveCaller(caller._application, bearer=caller._bearer)
    headers = {HEADER: "true", "x-stainless-retry-count": "1"}
    assert (await _left(again, WAYS["completion"], alice, **headers)).pk == run.pk


@pytest.mark.parametrize("wish", ["true", ""])
async def test_clients_that_only_watch_stop_nothing(caller: LiveCaller, alice: User, wish: str) -> None:
    run = await _left(caller, Way("/v1/responses", {**WAYS["response"].body, "background": True}), alice)
    watching = LiveCaller(caller._application, bearer=caller._bearer)
    address = f"/v1/responses/resp_{run.pk.hex}?stream=true"
    asking = asyncio.create_task(watching.ask("GET", address, **({HEADER: wish} if wish else {})))
    await happens(lambda: len(watching.sent) >= 3)
    watching.leave()
    await asking
    assert (await in_db(Run.objects.get)).status == "queued"


def test_pages_of_other_origins_may_send_the_header() -> None:
    allowed = cors_headers("https://a.example", ["*"], preflight=True)["Access-Control-Allow-Headers"]
    assert HEADER in allowed
