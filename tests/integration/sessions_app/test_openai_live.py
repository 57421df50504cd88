"""What becomes of a question of the OpenAI protocol whose request is cut: by its client, by us, by a fault."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from channels.routing import URLRouter
from django.contrib.auth.models import User
from django.db import OperationalError
from openai import OpenAI
from redis.exceptions import RedisError

from agents_app.models import Run
from agents_app.services import cancel_run
from audit_app.kernel.circuit_breaker import Breaker
from audit_app.kernel.database import in_db
from sessions_app.identity.api_keys import create_api_key
from sessions_app.models import ApiKey
from sessions_app.surfaces.base import reauthentication
from sessions_app.surfaces.openai import commands, consumers, sdk_retries
from tests.support.rest import LiveCaller, make_agent, make_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey")]

APPLICATION = URLRouter(consumers.routes)
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

    def accept(*arguments: Any) -> Any:
        is_storing.set()
        assert may_store.wait(20)
        return commands.accept(*arguments)

    monkeypatch.setattr(consumers, "accept", accept)
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

    monkeypatch.setattr(consumers._Endpoint, "run_events", nothing)
    request = asyncio.create_task(caller.ask("POST", path, body))
    async with asyncio.timeout(20):
        await waits.wait()
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    assert (await in_db(Run.objects.get)).status == "queued"
    status, _, told = caller._received()
    assert status == (200 if body.get("stream") else 503)
    assert b'{"error":{"message":"The server restarts' in told.split(b"data: ")[-1]


async def cut(caller: LiveCaller, path: str, body: dict[str, Any], **headers: str) -> int:
    """Ask, and have the server end while somebody waits for the answer. The status."""
    waits = asyncio.Event()

    async def nothing(*_: Any) -> AsyncIterator[Any]:
        waits.set()
        await asyncio.Event().wait()
        yield

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consumers._Endpoint, "run_events", nothing)
        request = asyncio.create_task(caller.ask("POST", path, body, **headers))
        async with asyncio.timeout(20):
            await waits.wait()
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
    return caller._received()[0]


def would_ask_again(caller: LiveCaller) -> bool:
    """Whether the SDK repeats the request after that answer."""
    status, headers, _ = caller._received()
    with OpenAI(api_key="x") as client:
        return client._should_retry(httpx2.Response(status, headers=headers))


AGAIN, AGAIN_TWICE = {"x-stainless-retry-count": "1"}, {"x-stainless-retry-count": "2"}
OTHERS = [{"model": "default", "messages": [{"role": "user", "content": "Ho"}]}, QUESTIONS[1][1]]


async def test_a_client_that_repeats_a_request_by_itself_gets_the_run_that_it_began(caller: LiveCaller) -> None:
    for headers in ({}, AGAIN, AGAIN_TWICE):
        assert await cut(caller, *QUESTIONS[1], **headers) == 503
    run = await in_db(Run.objects.get)
    await in_db(cancel_run, run.pk, reason="Stopped.")
    status, told = await caller.ask("POST", *QUESTIONS[1], **AGAIN)
    assert status == 409 and "Stopped." in told
    assert await in_db(Run.objects.count) == 1
    assert not would_ask_again(caller), "which would begin another run"


async def test_equal_questions_that_are_cut_and_repeated_keep_a_run_each(caller: LiveCaller) -> None:
    for headers in ({}, {}, AGAIN):
        await cut(caller, *QUESTIONS[1], **headers)
    for run in await in_db(lambda: list(Run.objects.order_by("created_at"))):
        await in_db(cancel_run, run.pk, reason=f"Stopped {run.pk}.")
    told = [(await caller.ask("POST", *QUESTIONS[1], **AGAIN))[1] for _ in range(2)]
    runs = {str(run.pk) for run in await in_db(lambda: list(Run.objects.all()))}
    assert len(runs) == 2 and {run for run in runs for text in told if run in text} == runs


@pytest.mark.parametrize(("body", "headers"), [(OTHERS[0], AGAIN), (OTHERS[1], {})])
async def test_another_question_and_one_that_is_no_repetition_begin_a_run(
    caller: LiveCaller, body: dict[str, Any], headers: dict[str, str]
) -> None:
    await cut(caller, *QUESTIONS[1])
    await cut(caller, QUESTIONS[1][0], body, **headers)
    assert await in_db(Run.objects.count) == 2


async def test_while_valkey_is_away_a_repetition_is_a_new_question(
    caller: LiveCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> Any:
        raise RedisError("Connection refused")

    await cut(caller, *QUESTIONS[1])
    monkeypatch.setattr(sdk_retries, "valkey", SimpleNamespace(breaker=Breaker(), sync_client=away))
    assert await cut(caller, *QUESTIONS[1], **AGAIN) == 503
    assert await in_db(Run.objects.count) == 2


async def test_what_took_too_long_is_not_to_be_asked_again(caller: LiveCaller, settings: Any) -> None:
    settings.KOMAND_OPENAI_WAIT_SECONDS = 0.05
    status, told = await caller.ask("POST", *QUESTIONS[1])
    assert (status, json.loads(told)["error"]["code"]) == (504, "timeout")
    assert not would_ask_again(caller)


@pytest.mark.parametrize(("path", "body"), QUESTIONS)
async def test_who_may_not_be_told_any_longer_is_told_so_and_no_more(
    caller: LiveCaller, path: str, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reauthentication, "CHECK_SECONDS", 0.05)
    request = await asked(caller, path, body)
    await in_db(ApiKey.objects.all().delete)
    status, told = await request
    assert status == (200 if body.get("stream") else 401)
    assert "invalid_api_key" in json.dumps(told)
    assert (await in_db(Run.objects.get)).status == "queued", "the run goes on"


@pytest.mark.parametrize(("path", "body"), [QUESTIONS[0], QUESTIONS[2]])
async def test_a_stream_that_breaks_off_says_so(
    caller: LiveCaller, path: str, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any) -> AsyncIterator[Any]:
        raise OperationalError("server closed the connection unexpectedly")
        yield

    monkeypatch.setattr(consumers._Endpoint, "run_events", broken)
    status, told = await caller.ask("POST", path, body)
    assert status == 200 and told.endswith("\n\n") and "[DONE]" not in told
    assert '{"error":{"message":"The database is not reachable' in told.split("data: ")[-1]
