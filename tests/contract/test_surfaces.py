"""The promises of every surface, whatever its protocol. A new surface adds one entry to SURFACES."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.conf import settings as django_settings

from audit_app.kernel.database import in_db
from komand import asgi, server
from komand.openapi import document
from sessions_app import services
from sessions_app.identity import rate_limits
from sessions_app.identity.api_keys import create_api_key, revoke_api_key
from sessions_app.models import Session
from sessions_app.surfaces.base import reauthentication
from sessions_app.surfaces.base.surface import Surface, surface_at, surfaces
from tests.support.conditions import happens
from tests.support.rest import LiveCaller, make_agent, make_user
from tests.support.webchat import Visited
from tests.unit.sessions_app.live_view.watched_world import World
from tests.unit.sessions_app.surfaces import protocol_readers as readers

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey")]

ORIGIN = "https://app.example.org"


class Holder(Protocol):
    key: str
    session: Session

    def revoke(self) -> None: ...


class Alice:
    """A user with a key and a session in which nothing happens."""

    def __init__(self) -> None:
        make_agent()
        self.user = make_user("alice")
        made = create_api_key(self.user, "k", scopes=["all"])
        self.key, self._key_id = made.key, made.row.pk
        self.session: Session = services.open_session(owner=self.user, title="T")

    def revoke(self) -> None:
        revoke_api_key(self.user, self._key_id)


@dataclass(frozen=True)
class Sample:
    """Requests that stand for a surface.

    post: path and JSON body of a request that needs a credential.
    wrong_method: method and path.
    missing: a path of the surface at which there is nothing.
    keys: the keys of an error body, nested ones with dots.
    stream: path of a GET that streams the session `{}`. streams_post: answers to messages are streams.
    socket: path of a WebSocket for the session `{}`; close_code: of it, when its credential is revoked.
    reader: the client of `test_surfaces_resumption` that proves that a resumed stream has neither gaps nor duplicates,
        and that one that begins after a crash has nothing of the dead attempt.
    media_types: of the bodies that it accepts; empty if its requests have none.
    holder: makes who holds the credential: its `key`, a `session`, and `revoke`.
    """

    post: tuple[str, Any]
    wrong_method: tuple[str, str]
    missing: str
    keys: set[str]
    stream: str = ""
    streams_post: bool = False
    socket: str = ""
    close_code: int = 1000
    reader: type | None = None
    media_types: tuple[str, ...] = field(default=("application/json",))
    holder: Callable[[], "Holder"] = field(default=Alice)


HUB = f"/{django_settings.KOMAND_HUB_PATHS[0]}"
SURFACES = {
    "a2a": Sample(
        post=("/a2a/default", {"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}),
        wrong_method=("PUT", "/a2a/default"),
        missing="/a2a/default/nothing",
        keys={"error.code", "error.message"},
        reader=readers.TaskClient,
        streams_post=True,
    ),
    "ag_ui": Sample(
        post=("/ag-ui/agents/default", {"threadId": "t", "runId": "r", "messages": []}),
        wrong_method=("PUT", "/ag-ui/agents/default"),
        missing="/ag-ui/nothing",
        keys={"message", "code"},
        reader=readers.FrontEndClient,
        streams_post=True,
    ),
    "agent_messages": Sample(
        post=("/api/v1/agents", {"data": {"task": "x"}}),
        wrong_method=("PATCH", "/api/v1/agents"),
        missing="/api/v1/nothing",
        keys={"message", "code", "status"},
        stream="/api/v1/agents/{}/stream",
        socket="/api/v1/agents/{}/ws",
        close_code=4401,
        reader=readers.AgentClient,
    ),
    "mcp": Sample(
        post=("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}),
        wrong_method=("PUT", "/mcp"),
        missing="/mcp/nothing",
        keys={"jsonrpc", "id", "error.code", "error.message", "error.data"},
    ),
    "openai": Sample(
        post=("/v1/chat/completions", {"model": "default", "messages": [{"role": "user", "content": "x"}]}),
        wrong_method=("PUT", "/v1/chat/completions"),
        missing="/v1/nothing",
        keys={"error.message", "error.type", "error.param", "error.code"},
        reader=readers.ResponseClient,
        streams_post=True,
        socket="/v1/responses",
        close_code=4401,
    ),
    "rest": Sample(
        post=("/api/webchat/message", {"senderId": "x", "text": "x"}),
        wrong_method=("PUT", "/api/webchat/message"),
        missing="/api/nothing",
        keys={"success", "data", "error", "meta"},
    ),
    "signalr": Sample(
        post=(f"{HUB}/negotiate", {}),
        wrong_method=("PUT", f"{HUB}/negotiate"),
        missing=f"{HUB}/nothing",
        keys={"error"},
        socket=HUB,
        reader=readers.HubClient,
        media_types=(),  # a negotiation has no body
    ),
    "threads": Sample(
        post=("/v1/threads", {}),
        wrong_method=("PUT", "/v1/threads"),
        missing="/v1/users/nothing",
        keys={"detail", "code", "request_id"},
        stream="/v1/threads/{}/stream",
        reader=readers.ThreadClient,
    ),
    "webchat": Sample(
        post=("/webchat/site/messages", {"clientMessageId": "0" * 36, "text": "x"}),
        wrong_method=("PUT", "/webchat/site/messages"),
        missing="/webchat/site/nothing",
        keys={"error", "message"},
        stream="/webchat/site/events",
        reader=readers.VisitorClient,
        holder=Visited,
    ),
    "zeroclaw": Sample(
        post=("/zeroclaw/webhook", {"message": "x"}),
        wrong_method=("PUT", "/zeroclaw/webhook"),
        missing="/zeroclaw/nothing",
        keys={"error", "code"},
        stream="/zeroclaw/api/events",
        socket="/zeroclaw/ws/chat?agent=default&session_id={}",
        close_code=4401,
        reader=readers.GatewayClient,
    ),
}
NAMES = sorted(SURFACES)
STREAMING = [name for name in NAMES if SURFACES[name].stream]
SOCKETS = [name for name in NAMES if SURFACES[name].socket]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


async def ask(method: str, path: str, body: Any = None, *, bearer: str = "", **headers: str) -> Answer:
    """Send one request to the whole application. body: a JSON value, or bytes as they are."""
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    caller = LiveCaller(asgi.application, bearer=bearer)
    await caller._send_request(method, path, [data], {"Content_Length": str(len(data)), **headers})
    status, found, received = caller._received()
    return Answer(status, {name.lower(): value for name, value in found.items()}, received)


@pytest.fixture
async def holder(name: str) -> Holder:
    return await in_db(SURFACES[name].holder)


@pytest.fixture
def key(holder: Holder) -> str:
    return holder.key


def check_error(name: str, answer: Answer, status: int) -> None:
    assert answer.status == status, answer.body
    assert answer.headers["content-type"].startswith("application/json") and answer.headers["x-request-id"]
    found = json.loads(answer.body)
    nested = {f"error.{key}" for key in found["error"]} if isinstance(found.get("error"), dict) else {"error"}
    keys = {key for key in found if key != "error"} | (nested if "error" in found else set())
    assert keys >= SURFACES[name].keys, found


def test_every_surface_of_the_settings_is_held_to_the_contract() -> None:
    protocols = {surface.name for surface in surfaces if surface.error_body}
    assert protocols == set(SURFACES)
    assert len(surfaces.names()) == len(django_settings.KOMAND_SURFACES)


@pytest.mark.parametrize("name", NAMES)
async def test_a_request_without_a_credential_is_401(name: str) -> None:
    path, body = SURFACES[name].post
    check_error(name, await ask("POST", path, body), 401)


@pytest.mark.parametrize("name", NAMES)
async def test_an_unknown_path_is_404(name: str, key: str) -> None:
    for bearer in ("", key):
        check_error(name, await ask("GET", SURFACES[name].missing, bearer=bearer), 404)


@pytest.mark.parametrize("name", NAMES)
async def test_a_wrong_method_is_405_and_names_the_right_ones(name: str, key: str) -> None:
    method, path = SURFACES[name].wrong_method
    answer = await ask(method, path, {}, bearer=key)
    check_error(name, answer, 405)
    assert "POST" in answer.headers["allow"]


@pytest.mark.parametrize("name", NAMES)
async def test_a_body_over_the_limit_is_413(name: str, key: str, settings: Any) -> None:
    settings.KOMAND_MAX_BODY_BYTES = settings.KOMAND_ARTIFACT_MAX_BYTES = 100  # the latter where files are in the body
    path, _ = SURFACES[name].post
    check_error(name, await ask("POST", path, {"x": "x" * 100}, bearer=key), 413)
    refusal = server.too_large(path.encode())
    head, _, body = refusal.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 413") and json.loads(body).keys() == {
        key.partition(".")[0] for key in SURFACES[name].keys
    }


@pytest.mark.parametrize("name", [name for name in NAMES if SURFACES[name].media_types])
async def test_another_media_type_is_415(name: str, key: str) -> None:
    path, body = SURFACES[name].post
    check_error(name, await ask("POST", path, body, bearer=key, Content_Type="text/plain"), 415)


@pytest.mark.parametrize("name", NAMES)
async def test_too_many_requests_are_429_with_the_time_to_wait(name: str, key: str, settings: Any) -> None:
    settings.KOMAND_API_LIMIT = settings.KOMAND_CHAT_LIMIT = 1
    settings.KOMAND_WEBCHAT_WAIT_SECONDS = 0
    path = SURFACES[name].post[0]
    for _ in range(2):
        answer = await ask("POST", path, {"bad": "request"}, bearer=key)
    check_error(name, answer, 429)
    assert int(answer.headers["retry-after"]) > 0


@pytest.mark.parametrize("name", NAMES)
async def test_an_unexpected_error_is_500_without_details(name: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("a detail of ours")

    monkeypatch.setattr(rate_limits, "take", fail)
    path, body = SURFACES[name].post
    answer = await ask("POST", path, body, bearer=key)
    check_error(name, answer, 500)
    assert b"a detail of ours" not in answer.body


@pytest.mark.parametrize("name", NAMES)
async def test_the_callers_request_id_comes_back(name: str) -> None:
    path, body = SURFACES[name].post
    for answer in (
        await ask("POST", path, body, X_Request_Id="req-7"),
        await ask("GET", SURFACES[name].missing, X_Request_Id="req-7"),
    ):
        assert answer.headers["x-request-id"] == "req-7"


@pytest.mark.parametrize("name", NAMES)
async def test_listed_origins_may_read_answers_and_others_may_not(name: str, settings: Any) -> None:
    settings.KOMAND_CORS_ORIGINS = [ORIGIN]
    path, body = SURFACES[name].post
    preflight = await ask("OPTIONS", path, Origin=ORIGIN, Access_Control_Request_Method="POST")
    assert preflight.status == 204 and preflight.headers["access-control-allow-origin"] == ORIGIN
    allowed = preflight.headers["access-control-allow-headers"].split(", ")
    assert {"Authorization", "X-Request-Id", *surfaces.get(name).cors_headers} <= set(allowed)
    for request in (("POST", path, body), ("GET", SURFACES[name].missing)):
        assert (await ask(*request, Origin=ORIGIN)).headers["access-control-allow-origin"] == ORIGIN
        assert "access-control-allow-origin" not in (await ask(*request, Origin="https://evil.example")).headers


@pytest.mark.parametrize("name", NAMES)
def test_every_route_is_described_and_lies_below_a_prefix(name: str) -> None:
    described = {path for path in document.build()["paths"] if surface_at(path) is surfaces.get(name)}
    http = {
        f"/{route.pattern}"
        for route in surfaces.get(name).routes()
        if not issubclass(route.callback.consumer_class, AsyncWebsocketConsumer)
    }
    assert described and all(surface_at(path) is surfaces.get(name) for path in http)
    assert len(http) <= len(described)


@pytest.mark.parametrize("name", STREAMING)
async def test_a_stream_ends_when_its_credential_is_revoked(
    name: str, holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reauthentication, "CHECK_SECONDS", 0.05)
    caller = LiveCaller(asgi.application, bearer=holder.key)
    stream = asyncio.create_task(caller("GET", SURFACES[name].stream.format(holder.session.id)))
    await happens(lambda: caller.sent)
    await in_db(holder.revoke)
    async with asyncio.timeout(60):
        answer = await stream
    assert answer.status == 200 and not caller.sent[-1].get("more_body")


@pytest.mark.parametrize("name", SOCKETS)
async def test_a_websocket_is_closed_when_its_credential_is_revoked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reauthentication, "CHECK_SECONDS", 0.05)
    alice = await in_db(Alice)
    routes = [
        route
        for route in surfaces.get(name).routes()
        if issubclass(route.callback.consumer_class, AsyncWebsocketConsumer)
    ]
    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {alice.key}".encode())]
    socket = WebsocketCommunicator(URLRouter(routes), SURFACES[name].socket.format(alice.session.id), headers=headers)
    assert (await socket.connect(timeout=60))[0]
    await in_db(alice.revoke)
    while (message := await socket.receive_output(timeout=60))["type"] != "websocket.close":
        pass
    assert message.get("code", 1000) == SURFACES[name].close_code
    await socket.disconnect()


def test_every_surface_that_streams_has_a_reader_in_the_property_of_resuming() -> None:
    """`tests/unit/sessions_app/test_surfaces_resumption.py` cuts every reader off at every place."""
    kinds = {name: (each.stream, each.socket, each.streams_post) for name, each in SURFACES.items()}
    streaming = {name for name in NAMES if any(kinds[name])}
    assert {name for name in NAMES if SURFACES[name].reader} == streaming


@pytest.mark.parametrize("name", [name for name in NAMES if SURFACES[name].reader])
def test_a_viewer_that_joins_after_a_crash_sees_no_text_of_the_dead_attempt(name: str) -> None:
    reader, world = SURFACES[name].reader, World()
    assert reader is not None
    client, run = reader(), readers.RUN
    world.keep("message.received", run, turn_id="question", message_id="question")
    world.keep("run.queued", run, ordinal=0, agent_id="default")
    world.keep("run.started", run, fence=1, agent_id="default")
    for fence, text in ((1, "dead"), (2, "alive")):
        world.stream(run, (fence, 1), "run.claimed", None, fence=fence)
        world.stream(run, (fence, 2), "text.delta", 0, offset=0, text=text)
    for event in client.connect(world, stream_is_there=True)[1]:
        client.see(event)
    assert "".join(client.sent) == "alive"


def test_a_surface_that_is_registered_serves_its_prefix_with_its_own_errors() -> None:
    own = Surface("own", ("/v1/threads/own/",), error_body=lambda error: {"own": error.code})
    with surfaces.override(own):
        assert surface_at("/v1/threads/own/x") is own and surface_at("/v1/threads") is surfaces.get("threads")
    assert surface_at("/v1/threads/own/x") is surfaces.get("threads")
