"""Every consumer, streams and sockets included, for everybody: what belongs to alice is found by alice alone."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator

from komand import asgi
from sessions_app.identity import access_tokens
from sessions_app.identity.api_keys import create_api_key
from sessions_app.identity.principal import Principal
from sessions_app.surfaces.signalr import connections
from tests.security.route_world import World, names_an_object
from tests.support.rest import LiveCaller, make_user
from tests.support.rights import make_operator
from tests.support.rights_table import Route, audience_of, consumer_routes

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

_HTTP = URLRouter([route for route in asgi.routes() if not asgi.is_websocket(route)])
_SOCKETS = URLRouter([route for route in asgi.routes() if asgi.is_websocket(route)])
_HUBS = ("/hubs/chat", "/hubs/webchat", "/chathub")
_PLATFORM = "platforms, by their signature"
_BROWSER = "users with a browser session"
_ANYONE = "anyone, without a login"
ROUTES = {route.name: route for route in consumer_routes()}


class Live:
    """alice's objects, an open connection of hers to the hub, and callers by name."""

    def __init__(self, settings: Any) -> None:
        settings.KOMAND_API_LIMIT = settings.KOMAND_CHAT_LIMIT = settings.KOMAND_LOGIN_LIMIT = 0
        settings.KOMAND_LONGEST_WAIT_SECONDS = 1  # no worker executes the runs that requests start
        self.world = World()
        self.connection = connections.negotiate(Principal(self.world.alice, "jwt"))
        users = {"alice": self.world.alice, "bob": make_user("bob"), "carol": make_operator("carol")}
        self.bearers = {name: access_tokens.open_login(user).access for name, user in users.items()}
        self.bearers["reader"] = create_api_key(users["carol"], "reader", scopes=["read"]).key
        self.bearers["nobody"] = ""

    def url(self, route: Route) -> str:
        return f"{self.world.url(route)}?id={self.connection.token}" if route.path in _HUBS else self.world.url(route)

    async def status(self, name: str, route: Route) -> int:
        """Return the status of the answer; of a WebSocket 200 if it stays open, else 404. Streams are left."""
        if route.method == "WS":
            return await self._socket(name, route)
        caller = LiveCaller(_HTTP, bearer=self.bearers[name])
        body = None if route.method in ("GET", "DELETE") else {}
        answer = asyncio.create_task(caller.ask(route.method, self.url(route), body))
        while not answer.done() and not caller.sent:
            await asyncio.sleep(0.01)
        caller.leave()
        status, _ = await asyncio.wait_for(answer, 60)
        return status

    async def _socket(self, name: str, route: Route) -> int:
        headers = [(b"authorization", f"Bearer {self.bearers[name]}".encode())] if self.bearers[name] else []
        socket = WebsocketCommunicator(_SOCKETS, self.url(route), headers=[*headers, (b"host", b"localhost")])
        is_open, _ = await socket.connect(timeout=10)
        if is_open and name != "alice":  # some protocols close with a code after the handshake
            is_open = (await socket.receive_output(timeout=10))["type"] != "websocket.close"
        await socket.disconnect()
        return 200 if is_open else 404


@pytest.fixture
def live(settings: Any) -> Iterator[Live]:
    live = Live(settings)
    yield live
    connections.forget(live.connection)


def is_alices(route: Route) -> bool:
    return names_an_object(route) or route.path in _HUBS


def test_every_consumer_is_listed() -> None:
    assert len(ROUTES) > 15 and all(audience_of(route) for route in ROUTES.values())


@pytest.mark.whole
@pytest.mark.parametrize(
    "name", [name for name, route in ROUTES.items() if audience_of(route) not in (_PLATFORM, _ANYONE)]
)
async def test_consumers(live: Live, name: str) -> None:
    route = ROUTES[name]
    refused = {401, 404} if route.method == "WS" else {401}
    assert await live.status("nobody", route) in refused
    if not is_alices(route):
        return
    assert await live.status("bob", route) in {401, 404}, "another user"
    assert await live.status("carol", route) in {401, 404}, "a user with every right"
    assert await live.status("reader", route) in {401, 403, 404}, "an API key that reads"
    if audience_of(route) != _BROWSER:
        assert await live.status("alice", route) not in {401, 404}, "the owner"


async def test_anyone_may_open_a_conversation_on_a_site(live: Live) -> None:
    open_to_all = [route for route in ROUTES.values() if audience_of(route) == _ANYONE]
    assert [await live.status("nobody", route) for route in open_to_all] == [403], "the origin is of no site"


async def test_a_webhook_takes_no_login(live: Live) -> None:
    assert await live.status("carol", ROUTES["POST /channels/{}/{}/webhook"]) == 404  # there is no such account
