"""The application as a server sees it: routes, protocols, slashes, the loops beside the requests."""

from typing import Any

import pytest
from channels.testing import HttpCommunicator, WebsocketCommunicator
from django.conf import settings

from audit_app.kernel import liveness
from audit_app.kernel.database import in_db
from komand import asgi, background
from tests.support.conditions import happens

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


@pytest.fixture(autouse=True)
def no_heartbeat() -> None:
    """End the heartbeat that a tool, executed by an earlier test of this process, has begun under its own name."""
    liveness.stop()


async def get(path: str) -> tuple[int, bytes]:
    headers = [(b"host", b"localhost")]
    caller = HttpCommunicator(asgi.application, "GET", path, headers=headers)
    response = await caller.get_response(timeout=60)
    await caller.wait(60)  # the application goes on after its answer: it closes what the request held
    return response["status"], response["body"]


async def shown() -> set[str]:
    """Return the names of the processes with a heartbeat."""
    return {process.name for process in await in_db(liveness.list_processes) if process.alive}


async def test_a_path_is_answered_with_and_without_its_slash() -> None:
    assert (await get("/health/live"))[0] == (await get("/health/live/"))[0] == 200


async def test_an_unknown_path_of_the_api_has_the_api_s_shape() -> None:
    status, body = await get("/api/nothing/here")
    assert status in (401, 404) and body.startswith(b'{"success":false')


async def test_the_first_connection_starts_the_heartbeat_and_the_loops() -> None:
    await get("/health/live")

    async def is_shown() -> bool:
        return "web" in await shown()

    await happens(is_shown)
    await background.stop()
    assert "web" not in await shown()


async def test_a_page_of_another_origin_gets_no_socket() -> None:
    path = "/ws/chat/01a1fe70-1a6f-7746-8783-41317c9bb084"
    headers = [(b"host", b"localhost"), (b"origin", b"https://evil.example"), (b"cookie", b"a=b")]
    socket = WebsocketCommunicator(asgi.application, path, headers=headers)
    connected, code = await socket.connect(timeout=60)
    assert not connected and code in (403, 1000)
    await socket.wait()


async def test_a_lifespan_shutdown_ends_the_loops() -> None:
    received = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    sent: list[str] = []

    async def receive() -> dict[str, Any]:
        return next(received)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message["type"])

    await asgi.application({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_the_settings_name_this_application() -> None:
    assert settings.ASGI_APPLICATION == "komand.asgi.application"
