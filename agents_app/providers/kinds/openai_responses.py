"""The provider for servers with the Responses API: OpenAI, and vLLM and Ollama as far as they have it."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from openai import AsyncOpenAI

from agents_app.providers.accepts import Accepts
from agents_app.providers.errors import Endpoint
from agents_app.providers.responses.event_assembly import Assembly
from agents_app.providers.responses.input_items import REASONING
from agents_app.providers.responses.request_fields import encode_request, optional_parts
from agents_app.providers.sdk_provider import SdkProvider, SdkResponse
from agents_app.types import ModelRequest


class ResponsesProvider(SdkProvider):
    """Streams responses. The server stores none of them."""

    kind = "openai_responses"
    parts = Accepts({"image": ("image/png", "image/jpeg", "image/webp", "image/gif"), "file": ("application/pdf",)})
    shows_tool_parts = True
    # Encrypted by a key that the server has replaced: later reasoning can be read again.
    refused_once = frozenset({REASONING})

    def encode(self, request: ModelRequest, endpoint: Endpoint, refused: frozenset[str]) -> dict[str, Any]:
        return encode_request(request, endpoint, refused)

    def optional_parts(self, body: dict[str, Any]) -> Sequence[str]:
        return optional_parts(body)

    def call(
        self, client: AsyncOpenAI, body: dict[str, Any], headers: dict[str, Any]
    ) -> AbstractAsyncContextManager[SdkResponse]:
        # In `extra_body`, because the SDK traverses named arguments, which is slow for long histories.
        return client.responses.with_streaming_response.create(
            model=body["model"], input="", extra_body=body, extra_headers=headers
        )

    def assembly(self, request: ModelRequest, endpoint: Endpoint) -> Assembly:
        return Assembly(endpoint, output_limit=request.options.max_output_tokens)
