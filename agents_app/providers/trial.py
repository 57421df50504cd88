"""Tests a model provider with one small call, and reads the list of its models."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from asgiref.sync import async_to_sync

from agents_app.models import ModelProvider
from agents_app.providers import registry
from agents_app.providers.base import Provider, ProviderError
from agents_app.types import Message, ModelRequest

MAX_MODELS = 500
_SECONDS = 20.0
_QUESTION = "Reply with the word OK."


@dataclass(frozen=True)
class Trial:
    """A successful test.

    model: which answered.
    seconds: until its whole answer.
    models: see `list_models`.
    """

    model: str
    seconds: float
    models: tuple[str, ...]


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
        request = ModelRequest(model, (Message("user", _QUESTION),), total_seconds=_SECONDS, idle_seconds=_SECONDS)
        await provider.respond(request)
        return Trial(model, time.monotonic() - started, models)


async def _models(provider: Provider) -> tuple[str, ...]:
    return tuple(sorted(await provider.list_models(seconds=_SECONDS))[:MAX_MODELS])
