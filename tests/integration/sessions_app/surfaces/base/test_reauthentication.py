"""Connections end once their caller has no access any more; an error on the server closes a connection."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import jwt
import pytest
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session as BrowserSession
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents_app.models import Run
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError, Forbidden
from komand import asgi
from sessions_app import services
from sessions_app.identity import access_tokens, api_keys, request_admission, session_tokens
from sessions_app.identity.api_keys import create_api_key, revoke_api_key
from sessions_app.identity.authentication import authenticate
from sessions_app.identity.principal import Principal, Unauthenticated
from sessions_app.identity.stream_tickets import issue_ticket, redeem_ticket
from sessions_app.models import ApiKey, RefreshToken, Session
from sessions_app.platforms.adapters.web.visitor_tokens import Visitor
from sessions_app.surfaces.agent_messages import consumers as agents
from sessions_app.surfaces.agent_messages.message_stream import MessageStream
from sessions_app.surfaces.base import reauthentication
from sessions_app.surfaces.signalr import connections
from sessions_app.surfaces.signalr import consumers as signalr
from sessions_app.surfaces.threads import consumers as threads
from sessions_app.surfaces.threads import notification_socket
from sessions_app.surfaces.webchat import visitor_admission
from sessions_app.surfaces.webchat.visitor_admission import Site, get_site
from tests.integration.sessions_app.surfaces.chat.chat_tab import cookie_of
from tests.support import webchat
from tests.support.conditions import happens
from tests.support.rest import LiveCaller, make_agent, make_user
from tests.support.webchat import Visited

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

ROUTES = [*agents.routes, *threads.routes, *signalr.routes]
SOCKETS = [route for route in ROUTES if issubclass(route.callback.consumer_class, AsyncWebsocketConsumer)]
HTTP = URLRouter([route for route in ROUTES if route not in SOCKETS])
MESSAGE = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hi"}]}}
WAITING: dict[str, tuple[str, dict[str, Any]]] = {
    "rest": ("/api/webchat/message?wait=300", {"senderId": "alice", "text": "Hi"}),
    "mcp": (
        "/mcp",
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "ask_agent", "arguments": {"agent": "default", "message": "x"}},
        },
    ),
    "a2a": ("/a2a/default/message:send?A2A-Version=1.0", MESSAGE),
    "a2a stream": ("/a2a/default/message:stream?A2A-Version=1.0", MESSAGE),
    "ag_ui": (
        "/ag-ui/agents/default",
        {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "Hi"}]},
    ),
    "threads ask": ("/v1/agent/ask", {"agent_id": "default", "prompt": "Hi"}),
    "openai": ("/v1/responses", {"model": "default", "input": "Hi"}),
    "openai stream": (
        "/v1/chat/completions",
        {"model": "default", "stream": True, "messages": [{"role": "user", "content": "x"}]},
    ),
}
INTERVAL = reauthentication.CHECK_SECONDS  # before the fixture shortens it
STREAMS = ("/api/v1/agents/{}/stream", "/api/v1/agents/{}/details/stream", "/v1/threads/{}/stream")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reauthentication, "CHECK_SECONDS", 0.05)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of credentials of the checks so far."""
    counted, find = list[int](), request_admission.find_refusals

    def count(principals: Sequence[Principal]) -> Any:
        refusals = find(principals)
        counted.append(len(principals))
        return refusals

    monkeypatch.setattr(request_admission, "find_refusals", count)
    return counted


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

    def deactivate(self) -> None:
        User.objects.filter(pk=self.user.pk).update(is_active=False)

    def delete(self) -> None:
        services.delete_session(self.session)


@asynccontextmanager
async def socket(path: str, key: str) -> AsyncIterator[WebsocketCommunicator]:
    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {key}".encode())]
    opened = WebsocketCommunicator(URLRouter(SOCKETS), path, headers=headers)
    assert (await opened.connect(timeout=60))[0]
    try:
        yield opened
    finally:
        await opened.disconnect()


async def close_code(opened: WebsocketCommunicator) -> int:
    while (message := await opened.receive_output(timeout=60))["type"] != "websocket.close":
        pass
    return int(message.get("code", 1000))


@pytest.mark.parametrize("path", STREAMS)
@pytest.mark.parametrize("lose", [Alice.revoke, Alice.deactivate, Alice.delete])
async def test_a_stream_ends_after_its_viewer_loses_access(path: str, lose: Callable[[Alice], None]) -> None:
    alice = await in_db(Alice)
    caller = LiveCaller(HTTP, bearer=alice.key)
    watching = asyncio.create_task(caller("GET", path.format(alice.session.id)))
    await happens(lambda: caller.sent)
    await in_db(lose, alice)
    answer = await asyncio.wait_for(watching, 60)
    assert answer.status == 200 and not caller.sent[-1].get("more_body"), "it ended by itself"


@pytest.mark.parametrize("path", STREAMS)
async def test_a_stream_ends_after_its_token_has_expired(path: str) -> None:
    """`exp` is in the past as soon as the clock of the check is ahead."""
    alice = await in_db(Alice)
    token = await in_db(lambda: session_tokens.issue_session_token(api_keys.authenticate_key(alice.key), {}))
    caller = LiveCaller(HTTP, bearer=token)
    watching = asyncio.create_task(caller("GET", path.format(alice.session.id)))
    await happens(lambda: caller.sent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timezone, "now", lambda: datetime.now(UTC) + timedelta(days=1))
        assert (await asyncio.wait_for(watching, 60)).status == 200


@pytest.mark.parametrize("path", STREAMS)
async def test_a_stream_continues_while_its_viewer_has_access(path: str, looks: list[int]) -> None:
    alice = await in_db(Alice)
    caller = LiveCaller(HTTP, bearer=alice.key)
    watching = asyncio.create_task(caller("GET", path.format(alice.session.id)))
    await happens(lambda: len(looks) > 2)
    assert not watching.done()
    caller.leave()
    await asyncio.wait_for(watching, 60)


async def test_a_login_streams_until_its_user_is_deactivated(looks: list[int]) -> None:
    alice = await in_db(Alice)
    token = (await in_db(access_tokens.open_login, alice.user)).access
    caller = LiveCaller(HTTP)
    watching = asyncio.create_task(caller("GET", STREAMS[2].format(alice.session.id), Cookie=f"ks_uat={token}"))
    await happens(lambda: len(looks) > 2)
    await in_db(alice.deactivate)
    assert (await asyncio.wait_for(watching, 60)).status == 200


@pytest.mark.parametrize("lose", [Alice.revoke, Alice.deactivate])
@pytest.mark.parametrize("name", WAITING)
async def test_a_request_that_waits_is_refused(name: str, lose: Callable[[Alice], None]) -> None:
    alice = await in_db(Alice)
    caller = LiveCaller(asgi.application, bearer=alice.key)
    path, body = WAITING[name]
    waiting = asyncio.create_task(caller.ask("POST", path, body, Accept="application/json, text/event-stream"))
    streams = body.get("stream") or name in ("a2a stream", "ag_ui")
    await happens(lambda: in_db(Run.objects.exists))
    await happens(lambda: caller.sent or not streams)
    await in_db(lose, alice)
    status, answer = await asyncio.wait_for(waiting, 60)
    assert status == (200 if streams else 401), answer
    assert not caller.sent[-1].get("more_body")
    stops = name == "threads ask"  # nobody could fetch its answer later
    assert (await in_db(Run.objects.get)).status == ("cancelled" if stops else "queued")


@pytest.mark.parametrize("lose", [Alice.revoke, Alice.deactivate])
@pytest.mark.parametrize(
    ("path", "code"),
    [("/api/v1/agents/{}/ws", agents.REFUSED), ("/hubs/chat", 1000), ("/v1/ws", notification_socket.UNAUTHORIZED)],
)
async def test_a_socket_is_closed_after_its_viewer_loses_access(
    path: str, code: int, lose: Callable[[Alice], None]
) -> None:
    alice = await in_db(Alice)
    async with socket(path.format(alice.session.id), alice.key) as opened:
        await in_db(lose, alice)
        assert await close_code(opened) == code


@pytest.mark.parametrize("lose", [Alice.revoke, Alice.deactivate])
@pytest.mark.parametrize(("accept", "status"), [("text/event-stream", 200), ("*/*", 401)])
async def test_a_hub_over_http_is_closed_too(accept: str, status: int, lose: Callable[[Alice], None]) -> None:
    alice = await in_db(Alice)
    caller, stream = LiveCaller(HTTP, bearer=alice.key), LiveCaller(HTTP, bearer=alice.key)
    path = await negotiated(caller)
    if status == 401:  # a client that polls: the first poll opens the connection
        assert (await caller.ask("GET", path, Accept=accept))[0] == 200
    watching = asyncio.create_task(stream.ask("GET", path, Accept=accept))
    await happens(lambda: stream.sent or any(one.polls for one in connections._connections.values()))
    await in_db(lose, alice)
    assert (await asyncio.wait_for(watching, 60))[0] == status


async def negotiated(caller: LiveCaller) -> str:
    _, body = await caller.ask("POST", "/hubs/chat/negotiate?negotiateVersion=1")
    return f"/hubs/chat?id={json.loads(body)['connectionToken']}"


async def test_a_socket_with_a_ticket_ends_with_the_browser_session_that_requested_it() -> None:
    alice = await in_db(Alice)
    browser, ticket = await in_db(_ticket_of_a_browser, alice.user)
    opened = WebsocketCommunicator(URLRouter(SOCKETS), f"/v1/ws?ticket={ticket}", headers=[(b"host", b"localhost")])
    assert (await opened.connect(timeout=60))[0]
    await in_db(browser.logout)
    assert await close_code(opened) == notification_socket.UNAUTHORIZED
    await opened.disconnect()


def _ticket_of_a_browser(user: User) -> tuple[Client, str]:
    browser = Client()
    browser.force_login(user)
    answer = browser.post("/api/auth/ticket").json()["data"]
    session_key = browser.cookies[settings.SESSION_COOKIE_NAME].value
    assert session_key not in str(jwt.decode(answer["ticket"][3:], options={"verify_signature": False}))
    return browser, answer["ticket"]


async def test_an_error_on_the_server_closes_the_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    alice = await in_db(Alice)

    async def fail(*_: Any) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(MessageStream, "messages", fail)
    async with socket(f"/api/v1/agents/{alice.session.id}/ws", alice.key) as opened:
        await in_db(services.rename_session, alice.session, "Another")
        assert await close_code(opened) == agents.FAILED


async def test_connections_stay_while_the_database_is_unavailable() -> None:
    """One is refused once the database answers again, the other stays."""
    faults: list[Exception] = [OperationalError("away"), OperationalError("away")]
    lost, stays = object(), object()

    def look(connections: Sequence[object]) -> list[AppError | None]:
        if faults:
            raise faults.pop()
        return [Forbidden("Not any more.") if connection is lost else None for connection in connections]

    with reauthentication.refusal_of(stays, look) as refusal:
        error = await asyncio.wait_for(reauthentication.until_refused(lost, look), 60)
        assert str(error) == "Not any more." and not faults and not refusal.done()


async def test_one_check_serves_all_connections_and_none_runs_without_them() -> None:
    calls: list[int] = []

    def look(connections: Sequence[object]) -> list[AppError | None]:
        calls.append(len(connections))
        return [None for _ in connections]

    with ExitStack() as opened:
        for _ in range(50):
            opened.enter_context(reauthentication.refusal_of(object(), look))
        await happens(lambda: len(calls) > 2)
    assert set(calls) == {50}
    [watch] = [watch for loop, watch in reauthentication._watches.items() if loop is asyncio.get_running_loop()]
    asked = len(calls)
    await happens(lambda: watch._task is None or watch._task.done())
    assert len(calls) <= asked + 1 and not watch.open


def test_a_check_comes_well_within_the_five_seconds_that_are_promised() -> None:
    assert INTERVAL <= 3


@dataclass
class Opened:
    principal: Principal
    session_id: UUID | None = None
    is_endless: bool = True


def test_fifty_connections_are_checked_by_five_statements() -> None:
    """One each: the users, the keys, the logins, the browser sessions, the sessions that are shown."""
    alice = Alice()
    users = [make_user(f"user-{number}") for number in range(10)]
    principals = [principal for user in users for principal in _principals_of(user)]
    opened = [Opened(principal) for principal in principals]
    opened[0] = Opened(Principal(alice.user, "jwt"), alice.session.pk)
    assert len(opened) == 50
    with CaptureQueriesContext(connection) as captured:
        assert reauthentication.find_refusals(opened) == [None] * 50
    assert len(captured) <= 5, captured.captured_queries
    keys = [Opened(principal) for principal in principals if principal.credential.startswith("key:")]
    with CaptureQueriesContext(connection) as captured:
        reauthentication.find_refusals(keys)
    assert len(captured) == 2, "keys and users alone"


def _principals_of(user: User) -> list[Principal]:
    """Return a principal of each kind of credential."""
    key = api_keys.authenticate_key(create_api_key(user, "k", scopes=["all"]).key)
    login = access_tokens.authenticate_token(access_tokens.open_login(user).access)
    ticket = redeem_ticket(issue_ticket(login))
    exchanged = session_tokens.authenticate_token(session_tokens.issue_session_token(key, {}))
    return [key, login, ticket, exchanged, _browser_of(user)]


def _browser_of(user: User) -> Principal:
    cookie = cookie_of(user).encode()
    scope = {
        "type": "http",
        "path": "/",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"cookie", cookie)],
    }
    principal = authenticate(scope)
    assert principal is not None and principal.kind == "session"
    return principal


def _end_sessions(user: User) -> None:
    BrowserSession.objects.all().delete()


def _expire_sessions(user: User) -> None:
    BrowserSession.objects.update(expire_date=timezone.now() - timedelta(seconds=1))


def _close_logins(user: User) -> None:
    RefreshToken.objects.update(revoked_at=timezone.now())


def _change_password(user: User) -> None:
    stored = User.objects.get(pk=user.pk)
    stored.set_password("another-secret")
    stored.save()


def _deactivate(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def _expire_keys(user: User) -> None:
    ApiKey.objects.update(expires_at=timezone.now() - timedelta(seconds=1))


KINDS = ("key", "login", "ticket", "exchanged", "browser")


@pytest.mark.parametrize(
    ("lose", "refused"),
    [
        (lambda user: ApiKey.objects.update(revoked_at=timezone.now()), {"key", "exchanged"}),
        (lambda user: ApiKey.objects.all().delete(), {"key", "exchanged"}),
        (_expire_keys, {"key", "exchanged"}),
        (_close_logins, {"login", "ticket"}),
        (_end_sessions, {"browser"}),
        (_expire_sessions, {"browser"}),
        (_change_password, {"login", "ticket", "exchanged", "browser"}),
        (_deactivate, set(KINDS)),
        (lambda user: user.delete(), set(KINDS)),
    ],
)
def test_a_credential_ends_the_connections_that_it_opened(lose: Callable[[User], None], refused: set[str]) -> None:
    alice, bob = make_user("alice"), make_user("bob")
    principals = [*_principals_of(alice), Principal(bob, "jwt")]
    assert request_admission.find_refusals(principals) == [None] * 6
    lose(User.objects.get(pk=alice.pk))
    *found, of_bob = request_admission.find_refusals(principals)
    assert {kind for kind, refusal in zip(KINDS, found, strict=True) if refusal} == refused and of_bob is None


def test_a_key_that_is_narrowed_ends_connections_of_other_surfaces() -> None:
    principal = api_keys.authenticate_key(create_api_key(make_user("alice"), "k", scopes=["all"]).key)
    hub, rest = replace(principal, surface="signalr"), replace(principal, surface="rest")
    ApiKey.objects.update(scopes=["signalr"])
    of_hub, of_rest = request_admission.find_refusals([hub, rest])
    assert of_hub is None and isinstance(of_rest, Unauthenticated)


def test_a_token_that_expires_ends_endless_connections_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that waits for an answer was admitted in time: its client would send it again."""
    [_, login, *_] = _principals_of(make_user("alice"))
    monkeypatch.setattr(timezone, "now", lambda: datetime.now(UTC) + timedelta(days=1))
    endless, waiting = reauthentication.find_refusals([Opened(login), Opened(login, is_endless=False)])
    assert isinstance(endless, Unauthenticated) and waiting is None


@dataclass
class Visit:
    known_site: Site
    visitor: Visitor
    session_id: UUID | None


def test_visits_of_a_site_are_checked_by_two_statements_and_end_with_their_conversation() -> None:
    visited = Visited()
    site, known = get_site("site"), webchat.visitor(is_native=True)
    visits = [Visit(site, known, visited.session.pk) for _ in range(50)]
    with CaptureQueriesContext(connection) as captured:
        assert visitor_admission.find_refusals(visits) == [None] * 50
    assert len(captured) == 2
    expired = replace(known, expires_at=datetime.now(UTC) - timedelta(hours=1))
    ended = [Visit(site, known, uuid4()), Visit(site, expired, visited.session.pk)]
    assert all(visitor_admission.find_refusals(ended))
    visited.revoke()
    assert all(visitor_admission.find_refusals(visits))


class LateVisit:
    """A connection that finds its conversation while it is checked: the check reads the visitor after that."""

    def __init__(self, site: Site) -> None:
        self.known_site = site
        self.session_id: UUID | None = None

    @property
    def visitor(self) -> Visitor:
        self.session_id = Session.objects.get().pk
        return webchat.visitor(is_native=True)


def test_a_visit_that_finds_its_conversation_during_the_check_stays_open() -> None:
    Visited()
    late = LateVisit(get_site("site"))
    assert visitor_admission.find_refusals([late]) == [None]
    assert late.session_id
