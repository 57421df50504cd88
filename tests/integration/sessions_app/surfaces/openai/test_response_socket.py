"""The limits of a WebSocket of the Responses API: its length, its waiting frames, its warm-ups. No worker answers."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import User

from agents_app.models import Agent, Run
from audit_app.kernel.database import in_db
from sessions_app.identity.api_keys import create_api_key
from sessions_app.models import Session
from sessions_app.surfaces.openai import consumers, response_socket
from sessions_app.surfaces.openai.response_socket import ResponseSocket
from tests.support.conditions import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

SOCKETS = URLRouter([one for one in consumers.routes if one.callback.consumer_class is ResponseSocket])
CREATE = {"type": "response.create", "model": "default", "input": "Hi"}


@pytest.fixture
async def socket(default_agent: Agent, alice: User) -> AsyncIterator[WebsocketCommunicator]:
    key = (await in_db(create_api_key, alice, "k", scopes=["openai"])).key
    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {key}".encode())]
    communicator = WebsocketCommunicator(SOCKETS, "/v1/responses", headers=headers)
    assert (await communicator.connect(timeout=60))[0]
    yield communicator
    await communicator.disconnect()


async def received(socket: WebsocketCommunicator) -> Any:
    return json.loads(await socket.receive_from(timeout=60))


async def test_a_connection_ends_after_an_hour(
    default_agent: Agent, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert response_socket.LONGEST_SECONDS == 3_600
    monkeypatch.setattr(response_socket, "LONGEST_SECONDS", 0)
    key = (await in_db(create_api_key, alice, "k", scopes=["openai"])).key
    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {key}".encode())]
    socket = WebsocketCommunicator(SOCKETS, "/v1/responses", headers=headers)
    await socket.connect(timeout=60)
    assert (await received(socket))["error"]["code"] == "websocket_connection_limit_reached"
    assert (await socket.receive_output(timeout=60))["type"] == "websocket.close"


async def test_further_frames_wait_up_to_a_limit(socket: WebsocketCommunicator) -> None:
    await socket.send_to(text_data=json.dumps(CREATE))
    assert [(await received(socket))["type"] for _ in range(2)] == ["response.created", "response.in_progress"]
    for _ in range(17):
        await socket.send_to(text_data=json.dumps(CREATE))
    refused = await received(socket)
    assert (refused["status"], refused["error"]["code"]) == (429, "too_many_requests")
    assert await in_db(Run.objects.count) == 1, "one response at a time"


async def test_a_client_that_leaves_stops_no_run(socket: WebsocketCommunicator) -> None:
    await socket.send_to(text_data=json.dumps({**CREATE, "store": False}))
    await eventually(Run.objects.exists)
    await socket.disconnect()
    assert (await in_db(Run.objects.get)).status == "queued"
    assert (await in_db(Session.objects.get)).is_temporary


async def test_warm_ups_store_nothing_and_the_oldest_are_forgotten(socket: WebsocketCommunicator) -> None:
    ids = []
    for _ in range(9):
        await socket.send_to(text_data=json.dumps({**CREATE, "generate": False, "stream_id": "a"}))
        events = [await received(socket) for _ in range(3)]
        assert {event["stream_id"] for event in events} == {"a"}
        ids.append(events[-1]["response"]["id"])
    assert not await in_db(Session.objects.exists)
    await socket.send_to(text_data=json.dumps({**CREATE, "previous_response_id": ids[0]}))
    assert (await received(socket))["error"]["code"] == "previous_response_not_found"
    await socket.send_to(text_data=json.dumps({**CREATE, "previous_response_id": ids[-1]}))
    assert (await received(socket))["response"]["previous_response_id"] == ids[-1]
