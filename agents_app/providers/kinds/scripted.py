"""A provider that plays a script, for tests and for running the engine without a model."""

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from agents_app.providers.accepts import Accepts
from agents_app.providers.base import Provider, ProviderError
from agents_app.providers.context_overflow import Overflow
from agents_app.types import LoadedPart, ModelChunk, ModelRequest, ModelResponse, ReasoningDelta, TextDelta, Usage
from agents_app.types.transcriptions import PLAIN, Transcription, TranscriptionOptions
from tools_app.types import ToolCall

_POLL_SECONDS = 0.01


@dataclass(frozen=True)
class Reply:
    """A scripted response: pieces with `delay_seconds` before each, then an error, a hang or the response.

    error: code of the ProviderError to raise after the pieces
    limit_tokens, request_tokens: sizes of that error
    hangs: wait for cancellation after the pieces
    held_by: hold the last piece back until this is set, by any thread
    """

    pieces: tuple[str, ...] = ()
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = ""
    usage: Usage = Usage()
    dialect_state: Mapping[str, Any] | None = None
    delay_seconds: float = 0.0
    error: str = ""
    retryable: bool | None = None
    retry_after_seconds: float | None = None
    limit_tokens: int | None = None
    request_tokens: int | None = None
    hangs: bool = False
    held_by: threading.Event | None = None


@dataclass
class Script:
    """Replies in order; the last one repeats. Records the requests and the number of cancelled calls."""

    replies: tuple[Reply, ...]
    requests: list[ModelRequest] = field(default_factory=list)
    cancelled: int = 0

    def take(self, request: ModelRequest) -> Reply:
        reply = self.replies[min(len(self.requests), len(self.replies) - 1)]
        self.requests.append(request)
        return reply


class ScriptedProvider(Provider):
    """The provider. The name of the model selects a script of `play`, or is one itself, as JSON for `script_of`."""

    kind = "scripted"
    parts = Accepts({"image": ("image/png", "image/jpeg"), "audio": ("audio/wav",), "file": ("application/pdf",)})
    scripts: ClassVar[dict[str, Script]] = {}

    @classmethod
    def play(cls, name: str, *replies: Reply) -> Script:
        """Register a script for this process and return it."""
        script = cls.scripts[name] = Script(replies)
        return script

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        name = request.model or self.default_model
        if name not in self.scripts:
            self.scripts[name] = Script(script_of(name))
        script = self.scripts[name]
        reply = script.take(request)
        try:
            if reply.reasoning:
                yield ReasoningDelta(reply.reasoning)
            for place, piece in enumerate(reply.pieces, start=1):
                await asyncio.sleep(reply.delay_seconds)
                while place == len(reply.pieces) and reply.held_by and not reply.held_by.is_set():
                    await asyncio.sleep(_POLL_SECONDS)
                yield TextDelta(piece)
            if reply.hangs:
                await asyncio.get_running_loop().create_future()
        except (asyncio.CancelledError, GeneratorExit):
            script.cancelled += 1
            raise
        if reply.error:
            failure = ProviderError(
                "The scripted model failed.",
                code=reply.error,
                retryable=reply.retryable,
                retry_after_seconds=reply.retry_after_seconds,
                sizes=Overflow(reply.limit_tokens, reply.request_tokens),
            )
            failure.usage = reply.usage
            raise failure
        finish_reason = reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop")
        yield ModelResponse(
            "".join(reply.pieces),
            reply.reasoning,
            reply.tool_calls,
            finish_reason,
            reply.usage,
            dialect_state=reply.dialect_state,
        )

    async def transcribe(
        self, audio: LoadedPart, *, model: str, seconds: float, options: TranscriptionOptions = PLAIN
    ) -> Transcription:
        """Return the bytes behind the signature of the file as its words."""
        return Transcription(audio.data[4:].decode("utf-8", "ignore"), usage=Usage(7, 3))


def script_of(text: str) -> tuple[Reply, ...]:
    """Return the replies of a JSON list of objects with the fields of Reply. Raises ProviderError if it is invalid.

    `text` is one piece; a tool call is `[name, {arguments}]`.
    """
    try:
        return tuple(_reply(item) for item in json.loads(text)) or (Reply(),)
    except (ValueError, TypeError, AttributeError) as error:
        raise ProviderError(f"There is no script {text!r}.", code="model_bad_request") from error


def _reply(item: dict[str, object]) -> Reply:
    fields = dict(item)
    text = fields.pop("text", "")
    pieces = fields.pop("pieces", [text] if text else [])
    calls = fields.pop("tool_calls", [])
    if not isinstance(pieces, list) or not isinstance(calls, list):
        raise TypeError("pieces and tool_calls are lists")
    if "held_by" in fields:
        raise TypeError("`held_by` is not available in JSON")
    tool_calls = tuple(
        ToolCall(f"call_{number}", name, json.dumps(arguments)) for number, (name, arguments) in enumerate(calls)
    )
    return Reply(pieces=tuple(pieces), tool_calls=tool_calls, **fields)  # type: ignore[arg-type]  # checked by Reply
