"""Requests of one hub connection over plain HTTP, with the token that it issued for an API key, also an expired one."""

import asyncio
import json
from datetime import datetime, timedelta, tzinfo
from typing import Any, Self

import pytest
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.routing import URLRouter

from audit_app.kernel.database import in_db
from sessions_app.identity.api_keys import create_api_key, revoke_api_key
from sessions_app.surfaces.signalr import consumers
from tests.support.conditions import happens
from tests.support.rest import LiveCaller, make_agent, make_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

HTTP = URLRouter(
    [route for route in consumers.routes if not issubclass(route.callback.consumer_class, AsyncWebsocketConsumer)]
)
EVENTS, POLL = "text/event-stream", "*/*"


class Tomorrow(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return super().now(tz) + timedelta(days=1)


class Client:
    """A client with an API key, as `@microsoft/signalr` behaves: it sends the issued token after the negotiation."""

    def __init__(self) -> None:
        make_agent()
        self.user = make_user("alice")
        made = create_api_key(self.user, "k", scopes=["signalr"])
        self.key, self.key_id = made.key, made.row.pk
        self.stream: asyncio.Task[Any] | None = None

    async def negotiate(self) -> None:
        _, body = await LiveCaller(HTTP, bearer=self.key).ask("POST", "/hubs/chat/negotiate?negotiateVersion=1")
        found = json.loads(body)
        self.path, self.token = f"/hubs/chat?id={found['connectionToken']}", found["accessToken"]

    async def open(self, accept: str) -> None:
        await self.negotiate()
        if accept == POLL:
            assert (await self.ask("GET"))[0] == 200
            return
        caller = LiveCaller(HTTP)
        self.stream = asyncio.create_task(caller.ask("GET", f"{self.path}&access_token={self.token}", Accept=accept))
        await happens(lambda: caller.sent)

    async def ask(self, method: str, *, path: str = "", bearer: str = "") -> tuple[int, str]:
        caller = LiveCaller(HTTP, bearer=bearer or self.token)
        record = {"protocol": "json", "version": 1} if method == "POST" else None
        return await caller.ask(method, path or self.path, record, Accept="*/*", Content_Type="text/plain")

    async def close(self) -> None:
        await self.ask("DELETE")
        if self.stream:
            await asyncio.wait_for(self.stream, 60)


@pytest.fixture
async def client() -> Client:
    return await in_db(Client)


@pytest.mark.parametrize("accept", [EVENTS, POLL])
async def test_an_open_connection_takes_messages_after_its_token_has_expired(
    client: Client, accept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.open(accept)
    monkeypatch.setattr("jwt.api_jwt.datetime", Tomorrow)
    assert (await client.ask("POST"))[0] == 200
    assert (await client.ask("DELETE"))[0] == 202
    if client.stream:
        assert (await asyncio.wait_for(client.stream, 60))[0] == 200


@pytest.mark.parametrize("accept", [EVENTS, POLL])
async def test_it_refuses_them_once_the_key_is_revoked(
    client: Client, accept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.open(accept)
    monkeypatch.setattr("jwt.api_jwt.datetime", Tomorrow)
    await in_db(revoke_api_key, client.user, client.key_id)
    assert (await client.ask("POST"))[0] == 401
    if client.stream:
        await asyncio.wait_for(client.stream, 60)


async def test_an_expired_token_is_good_for_nothing_but_its_own_open_connection(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.open(POLL)
    own, token = client.path, client.token
    await client.open(POLL)
    another = client.path
    await client.negotiate()
    unopened = client.path
    monkeypatch.setattr("jwt.api_jwt.datetime", Tomorrow)
    assert (await client.ask("POST", path=own, bearer=token))[0] == 200
    for path in (another, unopened, "/hubs/chat/negotiate", f"/hubs/chat/negotiate{own.removeprefix('/hubs/chat')}x"):
        assert (await client.ask("POST", path=path, bearer=token))[0] == 401, path
    assert (await client.ask("POST", path=unopened))[0] == 401, "the token of a connection that is not open"
    for bearer in (f"{token}x", "none"):
        assert (await client.ask("POST", path=own, bearer=bearer))[0] == 401


async def test_a_closed_connection_ends_the_expired_token(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    await client.open(EVENTS)
    monkeypatch.setattr("jwt.api_jwt.datetime", Tomorrow)
    await client.close()
    assert (await client.ask("POST"))[0] == 401
