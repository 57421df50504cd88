"""What becomes of a question of the OpenAI protocol whose request is cut: by its client, by us, by a fault."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from channels.routing import URLRouter
from django.contrib.auth.models import User
from django.db import OperationalError

from agents_app.models import Run
from audit_app.kernel.database import in_db
from sessions_app.identity.api_keys import create_api_key
from sessions_app.surfaces.openai import asking, live
from tests.rest_rig import LiveCaller, make_agent, make_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey")]

APPLICATION = URLRouter(live.live_routes)
QUESTIONS = [
    ("/v1/chat/completions", {"model": "default", "messages": [{"role": "user", "content": "Hi"}], "stream": True}),
    ("/v1/chat/completions", {"model": "default", "messages": [{"role": "user", "content": "Hi"}]}),
    ("/v1/responses", {"model": "default", "input": "Hi", "stream": True}),
]


@pytest.fixture
def caller() -> LiveCaller:
    make_agent()
    user: User = make_user("alice")
    return LiveCaller(APPLICATION, bearer=create_api_key(user, "k").key)


async def asked(caller: LiveCaller, path: str, body: dict[str, Any]) -> "asyncio.Task[Any]":
    """The request under way, its question stored. Nobody answers."""
    request = asyncio.create_task(caller.ask("POST", path, body))
    async with asyncio.timeout(20):
        while not await in_db(Run.objects.exists) or (body.get("stream") and len(caller.sent) < 3):
            await asyncio.sleep(0.01)
    return request


@pytest.mark.parametrize(("path", "body"), QUESTIONS)
async def test_who_leaves_stops_the_run(caller: LiveCaller, path: str, body: dict[str, Any]) -> None:
    request = await asked(caller, path, body)
    caller.leave()
    await request
    assert (await in_db(Run.objects.get)).status == "cancelled"


async def test_who_leaves_while_the_question_is_being_stored_stops_the_run(
    caller: LiveCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_storing, may_store = threading.Event(), threading.Event()

    def ask(*arguments: Any) -> Any:
        is_storing.set()
        assert may_store.wait(20)
        return asking.ask(*arguments)

    monkeypatch.setattr(live, "ask", ask)
    request = asyncio.create_task(caller.ask("POST", *QUESTIONS[1]))
    assert await asyncio.to_thread(is_storing.wait, 20)
    caller.leave()
    for _ in range(5):  # until the request has noticed
        await asyncio.sleep(0)
    may_store.set()
    await request
    assert (await in_db(Run.objects.get)).status == "cancelled"


@pytest.mark.parametrize(("path", "body"), QUESTIONS)
async def test_a_server_that_ends_says_so_and_stops_no_run(
    caller: LiveCaller, path: str, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = asyncio.Event()

    async def nothing(*_: Any) -> AsyncIterator[Any]:
        waits.set()
        await asyncio.Event().wait()
        yield

    monkeypatch.setattr(live._Endpoint, "facts", nothing)
    request = asyncio.create_task(caller.ask("POST", path, body))
    async with asyncio.timeout(20):
        await waits.wait()
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    assert (await in_db(Run.objects.get)).status == "queued"
    status, _, told = caller._received()
    assert status == (200 if body.get("stream") else 503)
    assert b'{"error":{"message":"The server restarts' in told.split(b"data: ")[-1]


@pytest.mark.parametrize(("path", "body"), [QUESTIONS[0], QUESTIONS[2]])
async def test_a_stream_that_breaks_off_says_so(
    caller: LiveCaller, path: str, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any) -> AsyncIterator[Any]:
        raise OperationalError("server closed the connection unexpectedly")
        yield

    monkeypatch.setattr(live._Endpoint, "facts", broken)
    status, told = await caller.ask("POST", path, body)
    assert status == 200 and told.endswith("\n\n") and "[DONE]" not in told
    assert '{"error":{"message":"The database is not reachable' in told.split("data: ")[-1]
