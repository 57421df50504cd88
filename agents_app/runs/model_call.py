"""A streamed model call: builds the request, forwards the text live, and can be stopped."""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings

from agents_app.prompt import history, system_prompt, tool_output_markers
from agents_app.providers.base import Provider, ProviderError
from agents_app.runs import run_policy
from agents_app.runs.lease import Claim
from agents_app.runs.live_text import LiveText
from agents_app.types import Message, ModelRequest, ModelResponse, ReasoningDelta, RunOptions, Snapshot, TextDelta
from audit_app.kernel.errors import AppError


@dataclass(frozen=True)
class Interrupted:
    """A stopped call. why: cancelled | stopped | time_limit | drained | fenced; text: the text received so far."""

    why: str
    text: str


def build_request(claim: Claim, snapshot: Snapshot, *, may_call_tools: bool) -> ModelRequest:
    """Return the request of the next model call: system prompt, history and this run's own steps."""
    agent, limits = claim.run.agent, snapshot.limits
    sign = tool_output_markers.sign_of(settings.SECRET_KEY, claim.run.conversation_id)
    lines = [tool.prompt_line for tool in claim.tools if tool.prompt_line]
    has_sources = any(tool.has_sources for tool in claim.tools)
    system = system_prompt.system_message(
        agent.name, agent.system_prompt, lines=lines, sign=sign, has_sources=has_sources
    )
    options = RunOptions.from_dict(claim.run.options)
    if options.instructions:
        system = replace(system, content=f"{system.content}\n\n{options.instructions}")
    messages = history.repair([system, *claim.history, *own_messages(snapshot)])
    return ModelRequest(
        model=run_policy.model_of(claim.run),
        messages=tool_output_markers.mark(history.fit(messages, budget_tokens=limits.context_tokens), sign),
        tools=claim.tools,
        may_call_tools=may_call_tools,
        total_seconds=limits.call_seconds,
        idle_seconds=limits.idle_seconds,
        options=options,
    )


def own_messages(snapshot: Snapshot) -> Sequence[Message]:
    """Return the messages of this run so far, with each user turn before the step that first answered it."""
    messages: list[Message] = []
    user_turns = [Message("user", text) for text in snapshot.user_turns]
    shown = 0
    for step in snapshot.steps:
        messages += user_turns[shown : step.turns_seen]
        shown = step.turns_seen
        messages.append(Message("assistant", step.text, step.tool_calls))
        messages += [
            Message("tool", execution.text_for_model, tool_call_id=execution.call_id)
            for execution in snapshot.executions
            if execution.step == step.index
        ]
    return [*messages, *user_turns[shown:]]


class ModelCall:
    """A model call in progress."""

    def __init__(self, provider: Provider, request: ModelRequest, live: LiveText) -> None:
        self._provider = provider
        self._request = request
        self._live = live
        self._pieces: list[str] = []
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

    async def _read(self) -> ModelResponse:
        began = ended = 0.0  # of the reasoning
        async with contextlib.aclosing(self._provider.stream(self._request)) as chunks:
            async for chunk in chunks:
                match chunk:
                    case TextDelta(text):
                        ended = ended or time.monotonic()
                        self._pieces.append(text)
                        self._live.add(text)
                    case ReasoningDelta(text):
                        began, ended = began or time.monotonic(), 0.0
                        self._live.add_reasoning(text)
                    case ModelResponse():
                        seconds = max((ended or time.monotonic()) - began, 0.001) if began else 0.0
                        return replace(chunk, reasoning_seconds=seconds)
                if self._live.fenced:
                    self.stop("fenced")
        raise ProviderError("The model's answer ended without its last part. Try again.", code="model_stream_cut")
