"""Credentials in URLs, which proxies and browsers log: one-time tickets, and short-lived tokens of two protocols."""

import json
import logging
from collections.abc import Callable

import pytest
from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import User

from audit_app.kernel.database import in_db
from komand import asgi
from sessions_app import services
from sessions_app.identity import access_tokens, session_tokens
from sessions_app.identity.api_keys import create_api_key, revoke_api_key
from sessions_app.identity.principal import Principal
from sessions_app.identity.stream_tickets import issue_ticket
from sessions_app.surfaces.base.surface import surfaces
from tests.support.rest import LiveCaller

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("valkey", "default_agent"),
    pytest.mark.one_database,
]

ROUTES = {
    "rest": "/api/sessions",
    "artifact": "/api/artifacts/x",
    "openai": "/v1/models",
    "threads": "/v1/threads",
    "agent_messages": "/api/v1/agents",
    "mcp": "/mcp",
}
SOCKETS = {"threads": "/v1/ws", "signalr": "/hubs/chat", "agent_messages": "/api/v1/agents/{session}/ws"}


def login_token(user: User) -> str:
    return access_tokens.open_login(user).access


def api_key(user: User) -> str:
    return create_api_key(user, "k", scopes=["all"]).key


def ticket(user: User) -> str:
    return issue_ticket(Principal(user, "jwt"))


async def connects(name: str, query: str, user: User) -> bool:
    session = await in_db(lambda: services.open_session(owner=user))
    path = SOCKETS[name].format(session=session.id)
    routes = [route for route in surfaces.get(name).routes() if route.resolve(path.lstrip("/"))]
    socket = WebsocketCommunicator(URLRouter(routes[-1:]), f"{path}?{query}", headers=[(b"host", b"localhost")])
    is_open = (await socket.connect(timeout=60))[0]
    if is_open and name == "threads":  # this protocol refuses after the handshake
        is_open = (await socket.receive_output(timeout=60))["type"] == "websocket.send"
    await socket.disconnect()
    return is_open


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("make", [login_token, api_key])
async def test_requests_refuse_tokens_in_the_query(route: str, make: Callable[[User], str], alice: User) -> None:
    token = await in_db(make, alice)
    method = "POST" if route == "mcp" else "GET"
    status, body = await LiveCaller(asgi.application).ask(method, f"{ROUTES[route]}?access_token={token}")
    assert status == 401 and "Authorization: Bearer" in body and token not in body


async def test_requests_refuse_a_token_in_the_query_beside_a_valid_header(alice: User) -> None:
    token = await in_db(login_token, alice)
    status, _ = await LiveCaller(asgi.application, bearer=token).ask("GET", f"/api/sessions?access_token={token}")
    assert status == 401


@pytest.mark.parametrize("name", SOCKETS)
async def test_sockets_refuse_api_keys_in_the_query(name: str, alice: User) -> None:
    key = await in_db(api_key, alice)
    assert not await connects(name, f"access_token={key}", alice)
    assert not await connects(name, f"ticket={key}", alice)


@pytest.mark.parametrize(("name", "accepts"), [("threads", False), ("signalr", True), ("agent_messages", True)])
async def test_only_two_protocols_accept_short_lived_tokens_in_the_query(name: str, accepts: bool, alice: User) -> None:
    token = await in_db(login_token, alice)
    assert await connects(name, f"access_token={token}", alice) is accepts


@pytest.mark.parametrize("name", SOCKETS)
async def test_sockets_accept_a_ticket_once(name: str, alice: User) -> None:
    token = await in_db(ticket, alice)
    assert await connects(name, f"ticket={token}", alice)
    assert not await connects(name, f"ticket={token}", alice)


@pytest.mark.parametrize("name", SOCKETS)
async def test_the_ticket_parameter_carries_only_tickets(name: str, alice: User) -> None:
    token = await in_db(login_token, alice)
    assert not await connects(name, f"ticket={token}", alice)


async def test_the_hub_refuses_an_api_key_in_the_query_and_says_what_to_do(alice: User) -> None:
    key = await in_db(api_key, alice)
    status, body = await LiveCaller(asgi.application).ask("POST", f"/hubs/chat/negotiate?access_token={key}")
    assert status == 401 and "/api/auth/ticket" in body and key not in body


async def test_the_negotiation_of_the_hub_gives_a_token_for_an_api_key_that_ends_with_it(alice: User) -> None:
    made = await in_db(lambda: create_api_key(alice, "k", scopes=["signalr:read"]))
    caller = LiveCaller(asgi.application, bearer=made.key)
    _, body = await caller.ask("POST", "/hubs/chat/negotiate?negotiateVersion=1")
    found = json.loads(body)
    token = found["accessToken"]
    assert await connects("signalr", f"id={found['connectionToken']}&access_token={token}", alice)
    principal = await in_db(session_tokens.authenticate_token, token)
    assert (principal.user, principal.scopes) == (alice, frozenset({"signalr:read"}))
    elsewhere = [
        await LiveCaller(asgi.application, bearer=token).ask("GET", path) for path in ("/api/sessions", "/mcp")
    ]
    assert {status for status, _ in elsewhere} <= {403, 405}
    await in_db(revoke_api_key, alice, made.row.pk)
    assert not await connects("signalr", f"access_token={token}", alice)


async def test_the_negotiation_gives_no_token_for_one_that_may_be_in_a_url(alice: User) -> None:
    for bearer in (await in_db(login_token, alice), await in_db(ticket, alice)):
        _, body = await LiveCaller(asgi.application, bearer=bearer).ask("POST", "/hubs/chat/negotiate")
        assert "accessToken" not in json.loads(body)


async def test_no_log_contains_the_token_of_a_query(alice: User, caplog: pytest.LogCaptureFixture) -> None:
    token = await in_db(login_token, alice)
    with caplog.at_level(logging.DEBUG):
        for path in (*ROUTES.values(), "/hubs/chat/negotiate", "/nowhere"):
            await LiveCaller(asgi.application).ask("GET", f"{path}?access_token={token}")
        await connects("signalr", f"access_token={token}", alice)
    assert token not in caplog.text


@pytest.mark.parametrize("name", ["daphne", "uvicorn.error"])
def test_the_servers_do_not_log_the_addresses_of_websockets(name: str) -> None:
    assert not logging.getLogger(name).isEnabledFor(logging.INFO)
