"""Calls of a provider in tests."""

from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from agents_app.providers.base import Provider
from agents_app.types import Message, ModelRequest, ModelResponse, ReasoningDelta, TextDelta


@dataclass
class Streamed:
    """The output of a provider, by kind."""

    texts: list[str] = field(default_factory=list)
    reasonings: list[str] = field(default_factory=list)
    responses: list[ModelResponse] = field(default_factory=list)

    @property
    def response(self) -> ModelResponse:
        return self.responses[-1]


def request_of(text: str, **changes: Any) -> ModelRequest:
    """Return a request with one user message. changes: fields of ModelRequest."""
    return ModelRequest(**{"model": "", "messages": (Message("user", text),), **changes})


async def collect(provider: Provider, request: ModelRequest, into: Streamed | None = None) -> Streamed:
    """Call the model to its end. into: gets the output before an error, too."""
    streamed = Streamed() if into is None else into
    async with aclosing(provider.stream(request)) as chunks:
        async for chunk in chunks:
            match chunk:
                case TextDelta(text):
                    streamed.texts.append(text)
                case ReasoningDelta(text):
                    streamed.reasonings.append(text)
                case ModelResponse():
                    streamed.responses.append(chunk)
    return streamed
