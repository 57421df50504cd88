"""Requests of the OpenAI protocol that are cut: by their client, by a shutdown, by an error."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from channels.routing import URLRouter
from django.db import OperationalError
from openai import OpenAI
from redis.exceptions import RedisError

from agents_app.models import Run
from agents_app.services import cancel_run
from audit_app.kernel.circuit_breaker import Breaker
from audit_app.kernel.database import in_db
from sessions_app.models import ApiKey
from sessions_app.surfaces.base import reauthentication
from sessions_app.surfaces.openai import commands, consumers, sdk_retries
from sessions_app.surfaces.openai.endpoint import AnswerEndpoint
from tests.support.conditions import eventually, happens
from tests.support.rest import LiveCaller

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

APPLICATION = URLRouter(consumers.routes)
REQUESTS = [
    ("/v1/chat/completions", {"model": "default", "messages": [{"role": "user", "content": "Hi"}], "stream": True}),
    ("/v1/chat/completions", {"model": "default", "messages": [{"role": "user", "content": "Hi"}]}),
    ("/v1/responses", {"model": "default", "input": "Hi", "stream": True}),
]


async def asked(caller: LiveCaller, path: str, body: dict[str, Any]) -> "asyncio.Task[Any]":
    """Start a request and return it once its message is stored. No worker answers it."""
    request = asyncio.create_task(caller.ask("POST", path, body))
    await eventually(Run.objects.exists)
    await happens(lambda: not body.get("stream") or len(caller.sent) >= 3)
    return request


@pytest.mark.parametrize(("path", "body"), REQUESTS)
async def test_a_client_that_leaves_stops_the_run(caller: LiveCaller, path: str, body: dict[str, Any]) -> None:
    request = await asked(caller, path, body)
    caller.leave()
    await request
    assert (await in_db(Run.objects.get)).status == "cancelled"


async def test_a_client_that_leaves_while_its_request_is_stored_stops_the_run(
    caller: LiveCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_storing, may_store = threading.Event(), threading.Event()

    def accept(*arguments: Any) -> Any:
        is_storing.set()
        assert may_store.wait(60)
        return commands.accept(*arguments)

    monkeypatch.setattr(consumers, "accept", accept)
    request = asyncio.create_task(caller.ask("POST", *REQUESTS[1]))
    assert await asyncio.to_thread(is_storing.wait, 60)
    caller.leave()
    for _ in range(5):  # until the request has noticed
        await asyncio.sleep(0)
    may_store.set()
    await request
    assert (await in_db(Run.objects.get)).status == "cancelled"


@pytest.mark.parametrize(("path", "body"), REQUESTS)
async def test_a_shutdown_is_reported_and_stops_no_run(
    caller: LiveCaller, path: str, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = asyncio.Event()

    async def nothing(*_: Any, **how: Any) -> AsyncIterator[Any]:
        waits.set()
        await asyncio.Event().wait()
        yield

    monkeypatch.setattr(AnswerEndpoint, "run_events", nothing)
    request = asyncio.create_task(caller.ask("POST", path, body))
    async with asyncio.timeout(60):
        await waits.wait()
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    assert (await in_db(Run.objects.get)).status == "queued"
    status, _, answer = caller._received()
    assert status == (200 if body.get("stream") else 503)
    assert b'{"error":{"message":"The server restarts' in answer.split(b"data: ")[-1]


async def cut(caller: LiveCaller, path: str, body: dict[str, Any], **headers: str) -> int:
    """Send a request, shut the server down while it waits, and return the status."""
    waits = asyncio.Event()

    async def nothing(*_: Any, **how: Any) -> AsyncIterator[Any]:
        waits.set()
        await asyncio.Event().wait()
        yield

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AnswerEndpoint, "run_events", nothing)
        request = asyncio.create_task(caller.ask("POST", path, body, **headers))
        async with asyncio.timeout(60):
            await waits.wait()
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
    return caller._received()[0]


def would_retry(caller: LiveCaller) -> bool:
    """Return whether the SDK retries the request after that response."""
    status, headers, _ = caller._received()
    with OpenAI(api_key="x") as client:
        return client._should_retry(httpx2.Response(status, headers=headers))


RETRY, SECOND_RETRY = {"x-stainless-retry-count": "1"}, {"x-stainless-retry-count": "2"}
OTHERS = [{"model": "default", "messages": [{"role": "user", "content": "Ho"}]}, REQUESTS[1][1]]


async def test_an_automatic_retry_resumes_its_run(caller: LiveCaller) -> None:
    for headers in ({}, RETRY, SECOND_RETRY):
        assert await cut(caller, *REQUESTS[1], **headers) == 503
    run = await in_db(Run.objects.get)
    await in_db(cancel_run, run.pk, reason="Stopped.")
    status, answer = await caller.ask("POST", *REQUESTS[1], **RETRY)
    assert status == 409 and "Stopped." in answer
    assert await in_db(Run.objects.count) == 1
    assert not would_retry(caller), "a retry would start another run"


async def test_equal_requests_that_are_cut_and_retried_keep_a_run_each(caller: LiveCaller) -> None:
    for headers in ({}, {}, RETRY):
        await cut(caller, *REQUESTS[1], **headers)
    for run in await in_db(lambda: list(Run.objects.order_by("created_at"))):
        await in_db(cancel_run, run.pk, reason=f"Stopped {run.pk}.")
    answer = [(await caller.ask("POST", *REQUESTS[1], **RETRY))[1] for _ in range(2)]
    runs = {str(run.pk) for run in await in_db(lambda: list(Run.objects.all()))}
    assert len(runs) == 2 and {run for run in runs for text in answer if run in text} == runs


@pytest.mark.parametrize(("body", "headers"), [(OTHERS[0], RETRY), (OTHERS[1], {})])
async def test_a_different_request_and_one_that_is_no_retry_start_a_run(
    caller: LiveCaller, body: dict[str, Any], headers: dict[str, str]
) -> None:
    await cut(caller, *REQUESTS[1])
    await cut(caller, REQUESTS[1][0], body, **headers)
    assert await in_db(Run.objects.count) == 2


async def test_while_valkey_is_unavailable_a_retry_is_a_new_request(
    caller: LiveCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> Any:
        raise RedisError("Connection refused")

    await cut(caller, *REQUESTS[1])
    monkeypatch.setattr(sdk_retries, "valkey", SimpleNamespace(breaker=Breaker(), sync_client=away))
    assert await cut(caller, *REQUESTS[1], **RETRY) == 503
    assert await in_db(Run.objects.count) == 2


async def test_a_timeout_is_not_to_be_retried(caller: LiveCaller, settings: Any) -> None:
    settings.KOMAND_OPENAI_WAIT_SECONDS = 0.05
    status, answer = await caller.ask("POST", *REQUESTS[1])
    assert (status, json.loads(answer)["error"]["code"]) == (504, "timeout")
    assert not would_retry(caller)


@pytest.mark.parametrize(("path", "body"), REQUESTS)
async def test_revoking_the_key_ends_a_stream_with_an_error(
    caller: LiveCaller, path: str, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reauthentication, "CHECK_SECONDS", 0.05)
    request = await asked(caller, path, body)
    await in_db(ApiKey.objects.all().delete)
    status, answer = await request
    assert status == (200 if body.get("stream") else 401)
    assert "invalid_api_key" in json.dumps(answer)
    assert (await in_db(Run.objects.get)).status == "queued", "the run continues"


@pytest.mark.parametrize(("path", "body"), [REQUESTS[0], REQUESTS[2]])
async def test_a_stream_that_fails_ends_with_an_error(
    caller: LiveCaller, path: str, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any, **how: Any) -> AsyncIterator[Any]:
        raise OperationalError("server closed the connection unexpectedly")
        yield

    monkeypatch.setattr(AnswerEndpoint, "run_events", broken)
    status, answer = await caller.ask("POST", path, body)
    assert status == 200 and answer.endswith("\n\n") and "[DONE]" not in answer
    assert '{"error":{"message":"The database is not reachable' in answer.split("data: ")[-1]
