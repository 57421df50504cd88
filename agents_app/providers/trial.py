"""Tests a model provider with one small call, and reads the list of its models."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from asgiref.sync import async_to_sync

from agents_app.models import ModelProvider
from agents_app.providers import registry
from agents_app.providers.base import Provider, ProviderError
from agents_app.types import Message, ModelRequest, ModelResponse
from tools_app.types import ToolSpec

MAX_MODELS = 500
_SECONDS = 20.0
_QUESTION = "Reply with the word OK."
_TOOL = ToolSpec("current_time", "Returns the time.", {"type": "object", "properties": {}})
# Of servers that refuse a request because it has tools.
_REFUSALS = ("model_bad_request", "model_error")


@dataclass(frozen=True)
class Trial:
    """A successful test.

    model: which answered.
    seconds: until its whole answer.
    models: see `list_models`.
    answer: the text.
    takes_tools: the server accepted a request with a tool; else it answered without.
    """

    model: str
    seconds: float
    models: tuple[str, ...]
    answer: str
    takes_tools: bool


@asynccontextmanager
async def built(row: ModelProvider) -> AsyncGenerator[Provider]:
    """Yield a provider of the block's own."""
    provider = await asyncio.to_thread(registry.build, row)
    try:
        yield provider
    finally:
        await provider.aclose()


@async_to_sync
async def list_models(row: ModelProvider) -> tuple[str, ...]:
    """Return the models that the provider offers; none if its kind has no such list. Raises ProviderError."""
    async with built(row) as provider:
        return await _models(provider)


@async_to_sync
async def try_out(row: ModelProvider) -> Trial:
    """Call the default model, or the first of the list, with one short message. Raises ProviderError."""
    async with built(row) as provider:
        try:
            models = await _models(provider)
        except ProviderError as error:
            if error.code != "model_bad_request" or not row.default_model:  # a server need not have a list
                raise
            models = ()
        model = row.default_model or (models[0] if models else "")
        started = time.monotonic()
        response, takes_tools = await _ask(provider, model)
        return Trial(model, time.monotonic() - started, models, response.text.strip(), takes_tools)


async def _ask(provider: Provider, model: str) -> tuple[ModelResponse, bool]:
    """Return the response, and whether the request might have a tool. Raises ProviderError."""
    question = (Message("user", _QUESTION),)
    request = ModelRequest(model, question, (_TOOL,), total_seconds=_SECONDS, idle_seconds=_SECONDS)
    try:
        return await provider.respond(request), True
    except ProviderError as error:
        if error.code not in _REFUSALS:
            raise
        return await provider.respond(replace(request, tools=())), False


async def _models(provider: Provider) -> tuple[str, ...]:
    return tuple(sorted(await provider.list_models(seconds=_SECONDS))[:MAX_MODELS])
