"""A streamed model call: builds the request, forwards the text live, and can be stopped."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings

from agents_app.prompt import context_size, history, offered_tools, system_prompt, tool_output_markers, tool_pictures
from agents_app.prompt.run_messages import own_messages
from agents_app.prompt.system_prompt import PromptPart
from agents_app.providers import request_parts
from agents_app.providers.base import Provider, ProviderError
from agents_app.runs import part_loader
from agents_app.runs.claims import Claim, system_parts_of
from agents_app.runs.live_text import LiveText, NoLiveText
from agents_app.runs.text_limit import TextLimit
from agents_app.types import (
    Message,
    ModelChunk,
    ModelRequest,
    ModelResponse,
    OmittedPart,
    ReasoningDelta,
    RunOptions,
    Snapshot,
    TextDelta,
)
from audit_app.kernel.errors import AppError


@dataclass(frozen=True)
class Interrupted:
    """A stopped call. text: the text received so far.

    why: cancelled | stopped | time_limit | too_long | repeats | drained | fenced
    """

    why: str
    text: str


def build_request(
    claim: Claim, snapshot: Snapshot, provider: Provider | None = None, *, may_call_tools: bool, answer_limit: int = 0
) -> ModelRequest:
    """Return the request of the next model call: system prompt, history and this run's own steps.

    provider: the one that is called; parts of messages that its model does not take are left out. None: keep all, for a
        request that is not sent.
    answer_limit: most tokens of the answer by the budgets above the run; 0 without one.
    """
    limits, options = snapshot.limits, RunOptions.from_dict(claim.run.options)
    messages, omitted = distinct_messages(claim, snapshot, provider)
    return ModelRequest(
        model=claim.model,
        messages=history.merge(messages),
        tools=claim.tools.listed_with(offered_tools.used_names(claim.history, snapshot.executions)),
        may_call_tools=may_call_tools,
        total_seconds=limits.call_seconds,
        idle_seconds=limits.idle_seconds,
        options=replace(
            options, output_schema=snapshot.output_schema, max_output_tokens=answer_limit or options.max_output_tokens
        ),
        parallel_tool_calls=claim.run.agent.parallel_tool_calls,
        tool_choice=options.tool_choice if options.tool_choice and _begins_answer(snapshot) else "",
        omitted=omitted,
    )


def _begins_answer(snapshot: Snapshot) -> bool:
    """Return whether the call is the first of its run, or the first after outputs of the client's tools."""
    last = snapshot.steps[-1].index if snapshot.steps else None
    return last is None or any(each.client_until for each in snapshot.executions if each.step == last)


def system_parts(claim: Claim) -> tuple[PromptPart, ...]:
    """Return the parts of the system message."""
    return system_parts_of(claim.run, claim.tools)


def distinct_messages(
    claim: Claim, snapshot: Snapshot, provider: Provider | None = None
) -> tuple[tuple[Message, ...], tuple[OmittedPart, ...]]:
    """Return the messages of the next model call before they are merged, so that each stays apart from the others.

    Those of the stored history have an ordinal; `is_summary` and `is_pinned` say what stays of what is left out. With
    them, the parts that are not sent.
    """
    context, sign = snapshot.context, tool_output_markers.sign_of(settings.SECRET_KEY, claim.run.conversation_id)
    system = system_prompt.system_message(system_parts(claim))
    paired = history.pair([system, *claim.history, *own_messages(snapshot)])
    messages, omitted = tuple(paired), tuple[OmittedPart, ...]()
    if provider and any(message.parts for message in messages):
        messages, omitted = request_parts.select(messages, provider.accepts(claim.model))
    budget = context_size.estimated_budget(snapshot)
    if context_size.request_tokens(snapshot) > budget:
        messages = history.fit(messages, budget_tokens=budget - context.tools, family=context.family)
    messages = tool_output_markers.mark(messages, sign)
    if provider and not provider.shows_tool_parts and any(message.parts for message in messages):
        messages = tuple(tool_pictures.apart(messages, sign))
    return messages, omitted


def chunks_of(provider: Provider, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
    """Begin the call. Files that cannot be sent are described in the text, and are in `omitted` of the response."""
    has_parts = request.omitted or any(message.parts for message in request.messages)
    return part_loader.stream(provider, request) if has_parts else provider.stream(request)


class ModelCall:
    """A model call in progress."""

    def __init__(self, chunks: AsyncGenerator[ModelChunk, None], live: LiveText | NoLiveText) -> None:
        """chunks: chunks of the call, such as `chunks_of` returns. They are closed with it."""
        self._chunks = chunks
        self._live = live
        self._pieces: list[str] = []
        self._limit = TextLimit(settings.KOMAND_MAX_ANSWER_CHARACTERS)
        self._reasoning_limit = TextLimit(settings.KOMAND_MAX_ANSWER_CHARACTERS)
        self._stop: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def stop(self, why: str) -> None:
        """Stop the call. Must be called from its event loop."""
        if not self._stop.done():
            self._stop.set_result(why)

    async def run(self, *, seconds_left: float) -> ModelResponse | Interrupted:
        """Return the whole response, or the reason why the call was stopped. Raises ProviderError.

        seconds_left: rest of the run's active seconds; the limits of the call itself are in the request.
        """
        reading = asyncio.create_task(self._read())
        waited_for: set[asyncio.Future[Any]] = {reading, self._stop}
        try:
            await asyncio.wait(waited_for, timeout=seconds_left, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                return reading.result()
            return Interrupted(self._stop.result() if self._stop.done() else "time_limit", self.text)
        finally:
            if not reading.done():
                reading.cancel()
                with contextlib.suppress(asyncio.CancelledError, AppError):
                    await reading

    async def _read(self) -> ModelResponse | Interrupted:
        began = ended = 0.0  # of the reasoning
        async with contextlib.aclosing(self._chunks) as chunks:
            async for chunk in chunks:
                match chunk:
                    case TextDelta(text):
                        ended = ended or time.monotonic()
                        text = self._limit.take(text)
                        self._pieces.append(text)
                        self._live.add(text)
                    case ReasoningDelta(text):
                        began, ended = began or time.monotonic(), 0.0
                        self._live.add_reasoning(self._reasoning_limit.take(text))
                    case ModelResponse():
                        seconds = max((ended or time.monotonic()) - began, 0.001) if began else 0.0
                        return replace(chunk, reasoning_seconds=seconds)
                if self._live.fenced:
                    self.stop("fenced")
                elif reached := self._limit.reached or self._reasoning_limit.reached:
                    return Interrupted(reached, self.text)
        raise ProviderError("The model's answer ended without its last part. Try again.", code="model_stream_cut")
