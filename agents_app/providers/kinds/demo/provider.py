"""The built-in demo provider: answers by simple rules, without a network, and calls real tools."""

import asyncio
import json
import re
import secrets
from collections.abc import AsyncGenerator

from agents_app.providers.base import Provider, ProviderError
from agents_app.providers.kinds.demo import texts, vectors
from agents_app.providers.kinds.demo.response import Decision, decide
from agents_app.types import ModelChunk, ModelRequest, ModelResponse, TextDelta, Usage
from agents_app.types.embeddings import EmbeddingRequest, Embeddings
from tools_app.types import ToolCall

DEFAULT_MODEL = "demo"
WORDS_PER_SECOND = {DEFAULT_MODEL: 30.0, "demo-slow": 5.0, "demo-instant": None}
_WORD = re.compile(r"\s*\S+|\s+")
_BYTES_PER_TOKEN = 4


class DemoProvider(Provider):
    """Models: `demo` streams about 30 words a second, `demo-slow` 5, `demo-instant` all at once."""

    kind = "demo"

    async def list_models(self, *, seconds: float) -> tuple[str, ...]:
        return tuple(WORDS_PER_SECOND)

    async def embed(self, request: EmbeddingRequest, *, seconds: float) -> Embeddings:
        return await asyncio.to_thread(vectors.embed, request)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        decision = decide(request.messages, request.tools if request.may_call_tools else ())
        model = request.model or self.default_model or DEFAULT_MODEL
        pace = WORDS_PER_SECOND.get(model, WORDS_PER_SECOND[DEFAULT_MODEL])
        for number, word in enumerate(_WORD.findall(decision.text)):
            if pace and number:
                await asyncio.sleep(1 / pace)
            yield TextDelta(word)
        if decision.fails:
            raise ProviderError(texts.ERROR, code="model_error", retryable=False)
        yield _response(decision, request)


def _response(decision: Decision, request: ModelRequest) -> ModelResponse:
    calls = tuple(
        ToolCall(f"call_{secrets.token_hex(8)}", intent.tool, json.dumps(intent.arguments, ensure_ascii=False))
        for intent in decision.intents
    )
    read = sum(len(message.content.encode()) for message in request.messages)
    usage = Usage(read // _BYTES_PER_TOKEN, len(decision.text.encode()) // _BYTES_PER_TOKEN)
    return ModelResponse(decision.text, "", calls, "tool_calls" if calls else "stop", usage)
