"""Streams end once their viewer has no access any more; an error on the server closes a connection."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import User
from django.db import OperationalError

from audit_app.kernel.database import in_db
from audit_app.kernel.errors import Forbidden
from sessions_app import services
from sessions_app.identity import access_tokens
from sessions_app.identity.api_keys import create_api_key, revoke_api_key
from sessions_app.identity.principal import Principal, Unauthenticated
from sessions_app.identity.request_admission import check_again
from sessions_app.identity.stream_tickets import issue_ticket
from sessions_app.models import Session
from sessions_app.surfaces.agent_messages import consumers as agents
from sessions_app.surfaces.agent_messages.message_stream import MessageStream
from sessions_app.surfaces.base import reauthentication
from sessions_app.surfaces.signalr import consumers as signalr
from sessions_app.surfaces.threads import consumers as threads
from sessions_app.surfaces.threads.event_stream import ThreadStream
from tests.support.conditions import happens
from tests.support.rest import LiveCaller, make_agent, make_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

ROUTES = [*agents.routes, *threads.routes, *signalr.routes]
SOCKETS = [route for route in ROUTES if issubclass(route.callback.consumer_class, AsyncWebsocketConsumer)]
HTTP = URLRouter([route for route in ROUTES if route not in SOCKETS])
STREAMS = ("/api/v1/agents/{}/stream", "/api/v1/agents/{}/details/stream", "/v1/threads/{}/stream")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reauthentication, "CHECK_SECONDS", 0.05)


class Alice:
    """Return her key, and an idle session."""

    def __init__(self) -> None:
        make_agent()
        self.user: User = make_user("alice")
        made = create_api_key(self.user, "k", scopes=["all"])
        self.key, self.key_id = made.key, made.row.pk
        self.session: Session = services.open_session(owner=self.user, title="T")

    def revoke(self) -> None:
        revoke_api_key(self.user, self.key_id)

    def delete(self) -> None:
        services.delete_session(self.session)


@asynccontextmanager
async def socket(path: str, key: str) -> AsyncIterator[WebsocketCommunicator]:
    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {key}".encode())]
    opened = WebsocketCommunicator(URLRouter(SOCKETS), path, headers=headers)
    assert (await opened.connect(timeout=20))[0]
    try:
        yield opened
    finally:
        await opened.disconnect()


async def close_code(opened: WebsocketCommunicator) -> int:
    while (message := await opened.receive_output(timeout=20))["type"] != "websocket.close":
        pass
    return int(message.get("code", 1000))


@pytest.mark.parametrize("path", STREAMS)
@pytest.mark.parametrize("lose", [Alice.revoke, Alice.delete])
async def test_a_stream_ends_after_its_viewer_loses_access(path: str, lose: Callable[[Alice], None]) -> None:
    alice = await in_db(Alice)
    caller = LiveCaller(HTTP, bearer=alice.key)
    watching = asyncio.create_task(caller("GET", path.format(alice.session.id)))
    await happens(lambda: caller.sent)
    await in_db(lose, alice)
    answer = await asyncio.wait_for(watching, 20)
    assert answer.status == 200 and not caller.sent[-1].get("more_body"), "it ended by itself"


async def test_a_stream_continues_while_its_viewer_has_access() -> None:
    alice = await in_db(Alice)
    looks: list[Principal] = []
    caller = LiveCaller(HTTP, bearer=alice.key)

    def look(stream: agents.MessageStreamConsumer) -> None:
        looks.append(stream.principal)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agents.MessageStreamConsumer, "recheck", look)
        watching = asyncio.create_task(caller("GET", STREAMS[0].format(alice.session.id)))
        await happens(lambda: len(looks) > 2)
        assert not watching.done()
        caller.leave()
        await asyncio.wait_for(watching, 20)


async def test_a_browser_session_streams_until_its_user_is_deactivated(monkeypatch: pytest.MonkeyPatch) -> None:
    alice, looks = await in_db(Alice), []
    token = (await in_db(access_tokens.open_login, alice.user)).access
    look = ThreadStream.recheck

    def count(stream: ThreadStream) -> None:
        look(stream)
        looks.append(stream)

    monkeypatch.setattr(ThreadStream, "recheck", count)
    caller = LiveCaller(HTTP)
    watching = asyncio.create_task(caller("GET", STREAMS[2].format(alice.session.id), Cookie=f"ks_uat={token}"))
    await happens(lambda: len(looks) > 2)
    await in_db(User.objects.filter(pk=alice.user.pk).update, is_active=False)
    assert (await asyncio.wait_for(watching, 20)).status == 200


@pytest.mark.parametrize(("path", "code"), [("/api/v1/agents/{}/ws", agents.REFUSED), ("/hubs/chat", 1000)])
async def test_a_socket_is_closed_after_its_viewer_loses_access(path: str, code: int) -> None:
    alice = await in_db(Alice)
    async with socket(path.format(alice.session.id), alice.key) as opened:
        await in_db(alice.revoke)
        assert await close_code(opened) == code


async def test_a_hub_over_http_is_closed_too() -> None:
    alice = await in_db(Alice)
    caller, stream = LiveCaller(HTTP, bearer=alice.key), LiveCaller(HTTP, bearer=alice.key)
    _, body = await caller.ask("POST", "/hubs/chat/negotiate?negotiateVersion=1")
    path = f"/hubs/chat?id={json.loads(body)['connectionToken']}"
    watching = asyncio.create_task(stream("GET", path, Accept="text/event-stream"))
    await happens(lambda: stream.sent)
    await in_db(alice.revoke)
    assert (await asyncio.wait_for(watching, 20)).status == 200


async def test_an_error_on_the_server_closes_the_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    alice = await in_db(Alice)

    async def fail(*_: Any) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(MessageStream, "messages", fail)
    async with socket(f"/api/v1/agents/{alice.session.id}/ws", alice.key) as opened:
        await in_db(services.rename_session, alice.session, "Another")
        assert await close_code(opened) == agents.FAILED


async def test_a_viewer_stays_while_the_database_is_unavailable() -> None:
    faults = [Forbidden("Not any more."), OperationalError("away"), OperationalError("away")]

    def look() -> None:
        raise faults.pop()

    assert str(await asyncio.wait_for(reauthentication.until_refused(look), 20)) == "Not any more." and not faults


def test_a_ticket_is_redeemed_once_and_its_user_checked_again() -> None:
    user = make_user("alice")
    principal = Principal(user, "jwt")
    query = f"ticket={issue_ticket(principal)}".encode()
    scope = {"type": "http", "path": "/", "query_string": query, "headers": [(b"host", b"localhost")]}
    for _ in range(2):
        check_again(scope, principal)
    User.objects.filter(pk=user.pk).update(is_active=False)
    with pytest.raises(Unauthenticated):
        check_again(scope, principal)


def test_another_user_on_the_same_connection_is_refused() -> None:
    alice, bob = make_user("alice"), make_user("bob")
    scope = {"type": "http", "path": "/", "query_string": b"", "headers": [(b"host", b"localhost")]}
    bobs = f"Bearer {create_api_key(bob, 'k', scopes=['all']).key}"
    check_again(scope, Principal(bob, "api_key", frozenset({"all"})), authorization=bobs)
    with pytest.raises(Unauthenticated):
        check_again(scope, Principal(alice, "api_key", frozenset({"all"})), authorization=bobs)
