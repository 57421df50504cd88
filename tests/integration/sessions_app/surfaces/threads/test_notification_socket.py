"""The WebSocket `/v1/ws`: admission, and notifications of the user's own threads only."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from channels.layers import get_channel_layer
from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from audit_app.kernel.database import in_db
from komand.websocket_origins import OriginCheck
from sessions_app.conversation import notifications
from sessions_app.identity import access_tokens
from sessions_app.identity.api_keys import create_api_key, revoke_api_key
from sessions_app.identity.principal import Principal
from sessions_app.identity.stream_tickets import issue_ticket
from sessions_app.services import rename_session
from sessions_app.surfaces.base import reauthentication
from sessions_app.surfaces.threads import notification_socket
from sessions_app.surfaces.threads.consumers import routes
from sessions_app.surfaces.threads.foreign_ids import TENANT, user_uuid
from tests.support.rest import make_session, make_user

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("valkey", "layer"),
    pytest.mark.one_database,
]

APPLICATION = OriginCheck(
    URLRouter([route for route in routes if route.callback.consumer_class is notification_socket.Notifications])
)
OURS = {"origin": "http://localhost"}
SECONDS = 60
Headers = dict[str, str]


@pytest.fixture
async def layer() -> AsyncIterator[None]:
    yield
    await get_channel_layer(notifications.LAYER).flush()


class Socket:
    """The client's end of a connection."""

    def __init__(self, query: str = "", **headers: str) -> None:
        fields = [(name.encode(), value.encode()) for name, value in {"host": "localhost", **headers}.items()]
        self.wire = WebsocketCommunicator(APPLICATION, f"/v1/ws?{query}", headers=fields)

    async def read(self) -> dict[str, Any]:
        received: dict[str, Any] = json.loads(await self.wire.receive_from(SECONDS))
        return received

    async def closed(self) -> int:
        code: int = (await self.wire.receive_output(SECONDS))["code"]
        return code

    async def ask(self, **frame: Any) -> dict[str, Any]:
        await self.wire.send_to(text_data=json.dumps(frame))
        return await self.read()


@asynccontextmanager
async def connected(query: str = "", **headers: str) -> AsyncIterator[Socket]:
    socket = Socket(query, **headers)
    accepted, _ = await socket.wire.connect(SECONDS)
    assert accepted
    try:
        yield socket
    finally:
        await socket.wire.disconnect(timeout=SECONDS)


@asynccontextmanager
async def listening(user: User) -> AsyncIterator[Socket]:
    """Subscribe to the user's own channel."""
    bearer = (await in_db(access_tokens.open_login, user)).access
    async with connected(authorization=f"Bearer {bearer}") as socket:
        await socket.read()
        assert (await socket.ask(action="subscribe", channel=channel_of(user)))["event"] == "subscribed"
        yield socket


def channel_of(user: User) -> str:
    return f"ks:{TENANT}:users:{user_uuid(user.pk)}"


def page_cookie(user: User) -> str:
    page = Client()
    page.force_login(user)
    return f"{settings.SESSION_COOKIE_NAME}={page.cookies[settings.SESSION_COOKIE_NAME].value}"


WAYS: dict[str, Callable[[User], tuple[str, Headers]]] = {
    "login": lambda user: ("", {"authorization": f"Bearer {access_tokens.open_login(user).access}"}),
    "key": lambda user: ("", {"authorization": f"Bearer {create_api_key(user, 'ws', scopes=['all']).key}"}),
    "ticket": lambda user: (f"ticket={issue_ticket(Principal(user, 'jwt'))}", {}),
    "cookie": lambda user: ("", {"cookie": f"ks_uat={access_tokens.open_login(user).access}", **OURS}),
    "page": lambda user: ("", {"cookie": page_cookie(user), **OURS}),
}


@pytest.mark.parametrize("way", WAYS)
async def test_every_kind_of_credential_is_accepted(alice: User, way: str) -> None:
    query, headers = await in_db(WAYS[way], alice)
    async with connected(query, **headers) as socket:
        greeting = await socket.read()
    assert greeting.pop("connection_id")
    assert greeting == {
        "type": "system",
        "event": "connection_established",
        "user_id": str(user_uuid(alice.pk)),
        "tenant_id": str(TENANT),
    }


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("", {}),
        ("access_token=x", {}),
        ("ticket=st_x", {}),
        ("", {"authorization": "Bearer sk-user-x"}),
        ("%ff=%ff", {}),
    ],
)
async def test_other_connections_are_refused_with_a_close_code(query: str, headers: Headers) -> None:
    async with connected(query, **headers) as socket:
        assert await socket.closed() == notification_socket.UNAUTHORIZED


@pytest.mark.parametrize("origin", [{}, {"origin": "http://elsewhere.example"}])
async def test_a_cookie_authenticates_on_our_own_origin_only(alice: User, origin: Headers) -> None:
    _, headers = await in_db(WAYS["cookie"], alice)
    accepted, _ = await Socket(**{**headers, "origin": "", **origin}).wire.connect(SECONDS)
    assert not accepted


async def test_a_new_title_is_sent_to_its_owner_only(alice: User) -> None:
    bob = await in_db(make_user, "bob")
    own, foreign = await in_db(make_session, alice), await in_db(make_session, bob)
    async with listening(alice) as hers, listening(bob) as his:
        await in_db(rename_session, foreign, "Bob's plans")
        await in_db(rename_session, own, "Roses")
        received, received_by_bob = await hers.read(), await his.read()
    assert received == {
        "type": "notification",
        "channel": channel_of(alice),
        "event": "THREAD_TITLE_CHANGED",
        "thread_id": str(own.pk),
        "title": "Roses",
    }
    assert (received_by_bob["thread_id"], received_by_bob["title"]) == (str(foreign.pk), "Bob's plans")


async def test_notifications_are_sent_between_subscribe_and_unsubscribe(alice: User) -> None:
    session, channel = await in_db(make_session, alice), channel_of(alice)
    _, headers = await in_db(WAYS["login"], alice)
    async with connected(**headers) as socket, listening(alice) as other:
        await socket.read()
        await in_db(rename_session, session, "Not yet")
        assert (await other.read())["title"] == "Not yet"
        assert await socket.ask(action="subscribe", channel=channel) == {
            "type": "system",
            "event": "subscribed",
            "channel": channel,
        }
        await in_db(rename_session, session, "Now")
        assert (await socket.read())["title"] == "Now"
        assert (await socket.ask(action="unsubscribe", channel=channel))["event"] == "unsubscribed"
        await in_db(rename_session, session, "No more")
        assert [(await other.read())["title"] for _ in range(2)] == ["Now", "No more"]
        assert (await socket.ask(action="subscribe", channel=f"ks:{TENANT}:notifications"))["event"] == "subscribed"


async def test_the_channel_of_another_user_is_refused(alice: User) -> None:
    bob = await in_db(make_user, "bob")
    async with listening(alice) as socket:
        for channel in (channel_of(bob), f"ks:{user_uuid(alice.pk)}:notifications", "ks:", "x" * 1000):
            refused = await socket.ask(action="subscribe", channel=channel)
            assert (refused["event"], refused["code"]) == ("error", "forbidden")


async def test_an_invalid_frame_gets_an_error_and_keeps_the_connection(alice: User) -> None:
    channel = channel_of(alice)
    frames = ("{", "[]", "7", '{"action": "dance"}', '{"action": "subscribe", "channel": 7}', "[" * 100_000)
    async with listening(alice) as socket:
        for frame in frames:
            await socket.wire.send_to(text_data=frame)
            refused = await socket.read()
            assert (refused["event"], refused["code"]) == ("error", "bad_request"), frame
        await socket.wire.send_to(bytes_data=b"\x00")
        assert (await socket.read())["code"] == "bad_request"
        assert (await socket.ask(action="unsubscribe", channel=channel))["event"] == "unsubscribed"


async def test_revoking_a_key_closes_its_connection(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reauthentication, "CHECK_SECONDS", 0.01)
    key = await in_db(create_api_key, alice, "ws", scopes=["all"])
    async with connected(authorization=f"Bearer {key.key}") as socket:
        await socket.read()
        await in_db(revoke_api_key, alice, key.row.pk)
        assert await socket.closed() == notification_socket.UNAUTHORIZED


async def test_without_a_channel_layer_the_close_code_asks_to_reconnect(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(listener: notifications.Listener) -> None:
        raise ConnectionError("Valkey is away")

    _, headers = await in_db(WAYS["key"], alice)
    monkeypatch.setattr(notifications.Listener, "join", fail)
    async with connected(**headers) as socket:
        assert await socket.closed() == notification_socket.UNAVAILABLE


async def test_over_the_rate_limit_the_close_code_asks_to_reconnect(alice: User, settings: Any) -> None:
    settings.KOMAND_API_LIMIT = 1
    _, headers = await in_db(WAYS["key"], alice)
    async with connected(**headers) as first:
        assert (await first.read())["event"] == "connection_established"
        async with connected(**headers) as second:
            assert await second.closed() == notification_socket.UNAVAILABLE
