"""The provider for servers with the Chat Completions API: OpenAI, vLLM, Ollama, llama.cpp, gateways, …"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from openai import AsyncOpenAI

from agents_app.providers.accepts import Accepts
from agents_app.providers.chat_completions.request_body import encode_request, optional_parts
from agents_app.providers.chat_completions.response_builder import Assembly
from agents_app.providers.errors import Endpoint
from agents_app.providers.sdk_provider import SdkProvider, SdkResponse
from agents_app.types import ModelRequest


class OpenAIProvider(SdkProvider):
    """Streams chat completions."""

    kind = "openai"
    parts = Accepts(
        {
            "image": ("image/png", "image/jpeg", "image/webp", "image/gif"),
            "audio": ("audio/wav", "audio/mpeg"),
            "file": ("application/pdf",),
        }
    )

    def encode(self, request: ModelRequest, endpoint: Endpoint, refused: frozenset[str]) -> dict[str, Any]:
        return encode_request(request, endpoint, refused)

    def optional_parts(self, body: dict[str, Any]) -> Sequence[str]:
        return optional_parts(body)

    def call(
        self, client: AsyncOpenAI, body: dict[str, Any], headers: dict[str, Any]
    ) -> AbstractAsyncContextManager[SdkResponse]:
        # In `extra_body`, because the SDK traverses named arguments, which is slow for long histories.
        return client.chat.completions.with_streaming_response.create(
            model=body["model"], messages=(), extra_body=body, extra_headers=headers
        )

    def assembly(self, request: ModelRequest, endpoint: Endpoint) -> Assembly:
        limits_output = request.options.max_output_tokens is not None
        return Assembly(endpoint, limits_output=limits_output, inline_reasoning=self.inline_reasoning)
