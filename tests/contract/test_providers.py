"""The contract of every kind of model provider. A new kind adds an entry to KINDS."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from django.conf import settings

from agents_app.providers import registry
from agents_app.providers.base import RETRYABLE_BY_CODE, Provider, ProviderError
from agents_app.types import Message, ModelRequest, TextDelta
from tests.fakes.model_server import ModelServer
from tests.fakes.replay_server import Recorded, ReplayServer
from tests.fakes.streams import Streamed, collect
from tools_app.types import ToolSpec

ECHO = ToolSpec("echo", "Say it again.", {"type": "object", "properties": {"text": {"type": "string"}}})
HELLO, CALLS, FAILS = "hello", "echo good morning", "/demo error"
Server = ModelServer | ReplayServer


def _event(name: str, **fields: Any) -> bytes:
    return f"data: {json.dumps({'type': f'response.{name}', 'output_index': 0, **fields})}\n\n".encode()


_CALL = {"type": "function_call", "call_id": "call_1", "name": "echo", "arguments": '{"text":"good morning"}'}
_END = _event("completed", response={"status": "completed"})


def _demo(server: Server) -> Provider:
    return registry.load("demo")(default_model="demo-instant")


def _openai(server: Server) -> Provider:
    return registry.load("openai")(base_url=server.base_url, api_key="sk-test", default_model="fake")


def _responses(server: Server) -> Provider:
    return registry.load("openai_responses")(base_url=server.base_url, default_model="fake")


def _scripted(server: Server) -> Provider:
    return registry.load("scripted")()


SCRIPTS = {
    HELLO: '[{"pieces": ["Hello ", "there"]}]',
    CALLS: '[{"tool_calls": [["echo", {"text": "good morning"}]]}]',
    FAILS: '[{"text": "half", "error": "model_error", "retryable": false}]',
}
LINES = {HELLO: 'text="Hello there"', CALLS: 'tool=echo args={"text":"good morning"}', FAILS: "error=3"}
EVENTS = {
    HELLO: [*(_event("output_text.delta", delta=text) for text in ("Hello ", "there")), _END],
    CALLS: [_event("output_item.done", item=_CALL), _END],
    FAILS: [_event("output_text.delta", delta="half"), _event("failed", response={"error": {"code": "server_error"}})],
}
KINDS = {"demo": _demo, "openai": _openai, "openai_responses": _responses, "scripted": _scripted}


@pytest.fixture(params=sorted(KINDS))
async def provider(request: pytest.FixtureRequest) -> AsyncIterator[Provider]:
    is_replayed = request.param == "openai_responses"
    with ReplayServer(Recorded(b"")) if is_replayed else ModelServer() as server:
        made = KINDS[request.param](server)
        made.server = server  # type: ignore[attr-defined]
        yield made
        await made.aclose()


def request_for(provider: Provider, text: str) -> ModelRequest:
    """Return the request that makes this kind of provider answer, call or fail."""
    if provider.kind == "openai":
        provider.server.script(LINES[text])  # type: ignore[attr-defined]
    if provider.kind == "openai_responses":
        provider.server.replay(Recorded(b"".join(EVENTS[text])))  # type: ignore[attr-defined]
    model = SCRIPTS[text] if provider.kind == "scripted" else ""
    return ModelRequest(model, (Message("system", "s"), Message("user", text)), (ECHO,))


def test_every_kind_of_the_settings_is_held_to_the_contract() -> None:
    assert set(KINDS) == set(settings.KOMAND_PROVIDERS)
    for kind in KINDS:
        assert registry.load(kind).kind == kind


async def test_deltas_come_first_and_one_whole_response_comes_last(provider: Provider) -> None:
    chunks = [chunk async for chunk in provider.stream(request_for(provider, HELLO))]
    streamed = await collect(provider, request_for(provider, HELLO))
    assert all(isinstance(chunk, TextDelta) for chunk in chunks[:-1])
    assert len(chunks) > 2 and len(streamed.responses) == 1
    assert "".join(streamed.texts) == streamed.response.text
    assert streamed.response.finish_reason == "stop" and not streamed.response.tool_calls


async def test_a_tool_call_is_whole_and_has_an_id(provider: Provider) -> None:
    response = (await collect(provider, request_for(provider, CALLS))).response
    (call,) = response.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("echo", {"text": "good morning"})
    assert call.id and response.finish_reason == "tool_calls"


async def test_a_failure_in_mid_stream_is_a_provider_error_with_a_known_code(provider: Provider) -> None:
    streamed = Streamed()
    with pytest.raises(ProviderError) as caught:
        await collect(provider, request_for(provider, FAILS), streamed)
    assert caught.value.code in RETRYABLE_BY_CODE and caught.value.message
    assert streamed.texts and not streamed.responses


async def test_leaving_in_the_middle_is_clean_and_the_provider_still_works(provider: Provider) -> None:
    async with aclosing(provider.stream(request_for(provider, HELLO))) as chunks:
        await anext(chunks)
    assert (await collect(provider, request_for(provider, HELLO))).response.text


async def test_many_calls_run_at_once_without_mixing(provider: Provider) -> None:
    requests = [request_for(provider, HELLO) for _ in range(20)]
    answers = await asyncio.gather(*(collect(provider, request) for request in requests))
    assert len({answer.response.text for answer in answers}) == 1


async def test_closing_twice_is_harmless(provider: Provider) -> None:
    await collect(provider, request_for(provider, HELLO))
    await provider.aclose()
    await provider.aclose()
