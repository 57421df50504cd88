"""Access to objects of other users over the OpenAI and SignalR surfaces: all routes and methods that name one."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.contrib.auth.models import User
from django.core.asgi import get_asgi_application
from django.urls import re_path
from django.utils import timezone

from agents_app.services import NewChild, start_child
from agents_app.types import RunStatus
from agents_app.types.child_runs import ChildSpec
from audit_app.kernel.ids import new_id
from sessions_app.attachments import user_files
from sessions_app.identity import access_tokens
from sessions_app.identity.principal import Principal
from sessions_app.models import Turn
from sessions_app.surfaces.base.surface import surfaces
from sessions_app.surfaces.openai import consumers as openai
from sessions_app.surfaces.openai import urls as openai_urls
from sessions_app.surfaces.signalr import connections, hub
from sessions_app.surfaces.signalr import consumers as signalr
from sessions_app.surfaces.signalr.hub import Hub
from tests.support.rest import LiveCaller, make_execution, make_run, make_session, make_user
from tests.support.rights import make_operator
from tools_app.models import Approval

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

# Where the access of each surface is tested. A new surface must be listed.
TESTED = {
    "openai": "here",
    "signalr": "here",
    "rest": "rest/test_access",
    "account": "account/test_login_views",
    "chat": "chat/test_views, chat/test_consumers",
    "mcp": "test_mcp",
    "threads": "threads/test_access",
    "tour": "test_tour",
    "agent_messages": "agent_messages/test_agent_runs",
    "a2a": "test_a2a",
    "ag_ui": "test_ag_ui",
    "webchat": "platforms/adapters/test_web",
    "zeroclaw": "zeroclaw/test_chat, zeroclaw/test_calls, zeroclaw/test_device_codes, zeroclaw/test_reports",
}
# Every route of the two, with the requests that name somebody's object: method, address, body. None: it names none.
OPENAI: dict[str, list[tuple[str, str, Any]]] = {
    "^v1/": [],  # no object
    "v1/files": [("GET", "v1/files?after={file}", None)],
    "v1/files/<str:file_id>": [(method, "v1/files/{file}", None) for method in ("GET", "DELETE")],
    "v1/files/<str:file_id>/content": [("GET", "v1/files/{file}/content", None)],
    "v1/models": [],
    "v1/embeddings": [],  # names an agent
    "v1/audio/transcriptions": [],  # as well
    "v1/models/<str:model>": [],
    "v1/responses/<str:response_id>/cancel": [("POST", "v1/responses/{response}/cancel", None)],
    "v1/responses/<str:response_id>/input_items": [("GET", "v1/responses/{response}/input_items", None)],
    "v1/responses/<str:response_id>": [
        ("GET", "v1/responses/{response}", None),
        ("GET", "v1/responses/{response}?stream=true", None),
        ("DELETE", "v1/responses/{response}", None),
    ],
    "v1/conversations": [],
    "v1/conversations/<str:conversation_id>": [
        ("GET", "v1/conversations/{conversation}", None),
        ("POST", "v1/conversations/{conversation}", {"metadata": {"topic": "taken"}}),
        ("DELETE", "v1/conversations/{conversation}", None),
    ],
    "v1/conversations/<str:conversation_id>/items": [
        ("GET", "v1/conversations/{conversation}/items", None),
        ("POST", "v1/conversations/{conversation}/items", {"items": [{"role": "user", "content": "x"}]}),
    ],
    "v1/conversations/<str:conversation_id>/items/<str:item_id>": [
        ("GET", "v1/conversations/{conversation}/items/{item}", None),
        ("DELETE", "v1/conversations/{conversation}/items/{item}", {}),  # while a run is open: 409
    ],
    "v1/responses": [
        ("POST", "v1/responses", {"model": "default", "input": "x", "conversation": "{conversation}"}),
        ("POST", "v1/responses", {"model": "default", "input": "x", "previous_response_id": "{response}"}),
        ("POST", "v1/responses", {"model": "default", "input": "x", "metadata": {"session_id": "{session}"}}),
    ],
    "v1/responses/compact": [
        ("POST", "v1/responses/compact", {"model": "default", "previous_response_id": "{response}"})
    ],
    "v1/responses/input_tokens": [
        ("POST", "v1/responses/input_tokens", {"previous_response_id": "{response}"}),
        (
            "POST",
            "v1/responses/input_tokens",
            {"model": "default", "input": "x", "metadata": {"session_id": "{session}"}},
        ),
    ],
    "v1/chat/completions": [
        (
            "POST",
            "v1/chat/completions",
            {
                "model": "default",
                "messages": [{"role": "user", "content": "x"}],
                "metadata": {"session_id": "{session}"},
            },
        )
    ],
}
HUB = settings.KOMAND_HUB_PATHS[0]
SIGNALR: dict[Any, list[tuple[str, str, Any]]] = {
    signalr.Negotiate: [],
    signalr.HubOverHttp: [(method, f"{HUB}?id={{token}}", None) for method in ("GET", "POST", "DELETE")],
    signalr.HubSocket: [],  # below
}
REQUESTS = [request for requests in (*OPENAI.values(), *SIGNALR.values()) for request in requests]
# The hub's methods, with arguments that name somebody's object.
METHODS: dict[str, list[list[Any]]] = {
    "sendmessage": [],  # names an agent, and finds the caller's own session with it
    "resume": [["{session}"], ["{session}", "1"]],
    "leave": [["{session}"]],
    "cancel": [["{session}"]],
    "listworkstreams": [["{session}"]],
    "messagerun": [["{child}", "hello"]],
    "steerrun": [["{child}", "pause_requested"]],
    "decideapproval": [["{approval}", "allow_once"]],
}
INVOCATIONS = [(name, arguments) for name, several in METHODS.items() for arguments in several]

APPLICATION = URLRouter(
    [
        *openai.routes,
        *(route for route in signalr.routes if route.callback.consumer_class is not signalr.HubSocket),
        re_path("", get_asgi_application()),
    ]
)


@dataclass
class Person:
    user: User
    bearer: str


@dataclass
class World:
    """Ids of alice's objects and of missing ones, by their placeholders above, and the users who request them."""

    alices: dict[str, str]
    missing: dict[str, str]
    alice: Person
    bob: Person
    carol: Person


@pytest.fixture
def world() -> Iterator[World]:
    """carol holds every right."""
    alice, bob = _person(make_user("alice")), _person(make_user("bob"))
    carol = _person(make_operator("carol"))
    session = make_session(alice.user, turns=2)
    run = make_run(session)
    child = start_child(NewChild(new_id(), make_run(session, RunStatus.QUEUED).pk, "deep", ChildSpec(name="Deep one")))
    now = timezone.now()
    approval = Approval.objects.create(
        execution=make_execution(run, status="Pending"), run_id=run.pk, created_at=now, expires_at=now
    )
    connection = connections.negotiate(_principal(alice))
    alices = {
        "session": session.key,
        "response": f"resp_{run.pk.hex}",
        "conversation": f"conv_{session.pk.hex}",
        "item": f"msg_{Turn.objects.filter(session=session).earliest('ordinal', 'part').pk.hex}",
        "approval": str(approval.pk),
        "child": str(child.pk),
        "file": f"file-{user_files.store(alice.user, 'a.txt', b'a', purpose='user_data').pk.hex}",
        "token": connection.token,
    }
    missing = {
        "session": str(uuid4()),
        "response": f"resp_{uuid4().hex}",
        "conversation": f"conv_{uuid4().hex}",
        "item": f"msg_{uuid4().hex}",
        "approval": str(uuid4()),
        "child": str(uuid4()),
        "file": f"file-{uuid4().hex}",
    }
    missing["token"] = "x" * 32
    yield World(alices, missing, alice, bob, carol)
    connections.forget(connection)


def test_every_surface_is_tested_somewhere() -> None:
    assert {surface.name for surface in surfaces} == set(TESTED)


def test_every_route_and_method_is_covered_here() -> None:
    routed = {str(route.pattern) for route in [*openai.routes, *openai_urls.urlpatterns]}
    assert routed == set(OPENAI)
    assert {route.callback.consumer_class for route in signalr.routes} == set(SIGNALR)
    assert set(hub._METHODS) == set(METHODS)


@pytest.mark.parametrize(("method", "path", "body"), REQUESTS)
async def test_objects_of_others_are_404(world: World, method: str, path: str, body: Any) -> None:
    for stranger in (world.bob, world.carol):
        status, text = await _call(stranger, method, path, body, world.alices)
        status_of_nothing, text_of_nothing = await _call(stranger, method, path, body, world.missing)
        assert status == status_of_nothing == 404
        assert _without_ids(text, world.alices) == _without_ids(text_of_nothing, world.missing)


@pytest.mark.parametrize(("method", "path", "body"), REQUESTS)
async def test_a_request_without_a_credential_is_401(world: World, method: str, path: str, body: Any) -> None:
    status, _ = await _call(None, method, path, body, world.alices)
    assert status == 401


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [one for one in REQUESTS if (one[2] is None and "stream" not in one[1] and "{token}" not in one[1])],
)
async def test_the_owner_has_access(world: World, method: str, path: str, body: Any) -> None:
    status, _ = await _call(world.alice, method, path, body, world.alices)
    assert status == 200


@pytest.mark.parametrize(("name", "arguments"), INVOCATIONS)
async def test_hub_methods_do_not_reveal_objects_of_others(world: World, name: str, arguments: list[Any]) -> None:
    foreign = await _invoke(world.bob, name, _filled(arguments, world.alices))
    nothing = await _invoke(world.bob, name, _filled(arguments, world.missing))
    assert _without_ids(foreign["error"], world.alices) == _without_ids(nothing["error"], world.missing)


@pytest.mark.parametrize(("name", "arguments"), [one for one in INVOCATIONS if one[0] != "decideapproval"])
async def test_hub_methods_serve_the_owner(world: World, name: str, arguments: list[Any]) -> None:
    assert "error" not in await _invoke(world.alice, name, _filled(arguments, world.alices))


async def test_a_socket_cannot_use_the_connection_of_another_user(world: World) -> None:
    assert not await _connects(world.bob, world.alices["token"])
    assert await _connects(world.alice, world.alices["token"])


def _person(user: User) -> Person:
    return Person(user, access_tokens.open_login(user).access)


def _principal(person: Person) -> Principal:
    return Principal(person.user, "jwt")


async def _call(person: Person | None, method: str, path: str, body: Any, named: dict[str, str]) -> tuple[int, str]:
    caller = LiveCaller(APPLICATION, bearer=person.bearer if person else "")
    return await caller.ask(method, f"/{_filled(path, named)}", _filled(body, named))


async def _connects(person: Person, token: str) -> bool:
    sockets = [route for route in signalr.routes if route.callback.consumer_class is signalr.HubSocket]
    socket = WebsocketCommunicator(URLRouter(sockets), f"{HUB}?id={token}&access_token={person.bearer}")
    is_open, _ = await socket.connect(timeout=60)
    await socket.disconnect(timeout=60)
    return is_open


async def _invoke(person: Person, name: str, arguments: list[Any]) -> dict[str, Any]:
    """Return the completion of an invocation."""
    records: list[dict[str, Any]] = []

    async def send(frame: str) -> None:
        records.extend(json.loads(record) for record in frame.split("\x1e") if record)

    served = Hub(_principal(person), send)
    await served._invoke({"type": 1, "invocationId": "7", "target": name, "arguments": arguments})
    await served.end()
    return next(record for record in records if record.get("invocationId") == "7")


def _filled(value: Any, named: dict[str, str]) -> Any:
    """Return the request with the ids of one user's objects."""
    text = json.dumps(value)
    for word, found in named.items():
        text = text.replace(f"{{{word}}}", found)
    return json.loads(text)


def _without_ids(text: str, named: dict[str, str]) -> str:
    for found in named.values():
        text = text.replace(found, "…")
    return text
