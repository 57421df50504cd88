"""Model calls of users that belong to no run. They are charged to an agent, under its limits and the emergency stop."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID, uuid5

from django.conf import settings
from django.db import transaction

from agents_app import selectors
from agents_app.costs import cost_budget, usage_ledger
from agents_app.costs.usage_ledger import Payer
from agents_app.errors import BudgetUsedUp, ModelFailed
from agents_app.models import Agent, ModelProvider, Run
from agents_app.providers import registry
from agents_app.providers.base import Provider, ProviderError
from agents_app.runs.audio_length import objection
from agents_app.types import LoadedPart, Usage
from agents_app.types.embeddings import EmbeddingRequest, Embeddings
from agents_app.types.prices import PriceList
from agents_app.types.transcriptions import Transcription, TranscriptionOptions
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError, InvalidInput
from tools_app.policy import emergency_stop

T = TypeVar("T")

# The records of usage name a conversation. Calls without one are added up by agent and actor.
_CONVERSATIONS = UUID("6a5c2f7e-6a0b-4a53-9c1e-5d2f0c9c6f10")
_OF_REQUEST = ("model_bad_request", "model_context_overflow")

_calls: set["asyncio.Task[Any]"] = set()


@dataclass(frozen=True)
class DirectCall:
    """A call that may be made. model: of the agent's provider, by the operator's choice."""

    agent: Agent
    actor: str
    model: str
    prices: PriceList

    @property
    def provider(self) -> ModelProvider:
        return self.agent.provider


def admit(agent: Agent, actor: str, model: str) -> DirectCall:
    """Return a call of the model at the agent's provider. Synchronous; reads only.

    Raises Stopped, and BudgetUsedUp if a budget or a cap forbids it.
    """
    emergency_stop.check_running(agent.agent_id)
    if reason := cost_budget.budget_refusal(agent, actor):
        raise BudgetUsedUp(reason)
    return DirectCall(agent, actor, model, selectors.price_list(agent.provider))


async def embed(call: DirectCall, request: EmbeddingRequest) -> Embeddings:
    """Return the vectors of the inputs, and record the usage. Raises InvalidInput, ModelFailed."""
    return await _finished(_embed(call, request))


async def transcribe(call: DirectCall, audio: LoadedPart, options: TranscriptionOptions) -> Transcription:
    """Return the words of an audio file, and record the usage.

    Raises InvalidInput, also for a file that is too large or too long, and ModelFailed.
    """
    if reason := objection(audio.data, settings.KOMAND_VOICE_SECONDS):
        raise InvalidInput(f"The file cannot be transcribed: {reason}.", code="audio_too_long")
    return await _finished(_transcribe(call, audio, options))


async def _transcribe(call: DirectCall, audio: LoadedPart, options: TranscriptionOptions) -> Transcription:
    with _reported():
        provider = await _opened(call.provider)
        seconds = call.agent.max_call_seconds
        transcription = await provider.transcribe(audio, model=call.model, seconds=seconds, options=options)
    await in_db(_record, call, transcription.usage, transcription.text)
    return transcription


async def _embed(call: DirectCall, request: EmbeddingRequest) -> Embeddings:
    with _reported():
        provider = await _opened(call.provider)
        embeddings = await provider.embed(request, seconds=call.agent.max_call_seconds)
    texts = "".join(each for each in request.inputs if isinstance(each, str))
    await in_db(_record, call, embeddings.usage, texts)
    return embeddings


async def _opened(row: ModelProvider) -> Provider:
    if registry.find_open(row) is None:
        with suppress(AppError):  # what opens it reports the error
            await asyncio.to_thread(registry.load, row.kind)  # imports an SDK: not in the database's thread
    return await registry.opened(row)


async def _finished(work: Coroutine[Any, Any, T]) -> T:
    """Return the result. A call that its client leaves goes on and is recorded: its server charges it."""
    task = asyncio.ensure_future(work)
    _calls.add(task)
    task.add_done_callback(_forget)
    return await asyncio.shield(task)


def _forget(task: "asyncio.Task[Any]") -> None:
    _calls.discard(task)
    if not task.cancelled():
        task.exception()  # which nobody awaits if the client has left


@contextmanager
def _reported() -> Iterator[None]:
    """Raise errors of a provider as those of the request, or of the server behind this one."""
    try:
        yield
    except ProviderError as error:
        failure = InvalidInput if error.code in _OF_REQUEST else ModelFailed
        raise failure(error.message, code=error.code) from error


def _record(call: DirectCall, usage: Usage, text: str) -> None:
    """Add the call to the sums, and to the budgets and caps. text: as for `usage_ledger.price_call`."""
    cost = usage_ledger.price_call(call.provider.name, call.model, call.prices, usage, text=text)
    conversation = uuid5(_CONVERSATIONS, f"{call.agent.agent_id} {call.actor}")
    with transaction.atomic():
        usage_ledger.add_call(Payer(conversation, call.agent.agent_id, call.actor), cost)
        cost_budget.charge(Run(agent=call.agent, actor=call.actor), cost)
