"""The provider for servers with the Chat Completions API: OpenAI, vLLM, Ollama, llama.cpp, gateways, …

The SDK sends the request. The stream is parsed here, at a fraction of the cost of the SDK's objects.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai
from openai import AsyncAPIResponse, AsyncOpenAI

from agents_app.providers import http_stream
from agents_app.providers.base import Provider
from agents_app.providers.chat_completions import errors
from agents_app.providers.chat_completions.request_body import encode_request
from agents_app.providers.chat_completions.response_builder import Assembly
from agents_app.providers.http_stream import AnswerReader, Clock
from agents_app.types import ModelChunk, ModelRequest

DEFAULT_BASE_URL = "https://api.openai.com/v1"
CONNECT_SECONDS = 10.0
# The engine limits the number of streams. Idle connections save the next call a handshake, but each call
# asks the kernel about every one of them: 200, as a burst leaves them, triple its CPU time.
IDLE_CONNECTIONS = 16
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=IDLE_CONNECTIONS, keepalive_expiry=30.0)
_Response = AsyncAPIResponse[Any]


class OpenAIProvider(Provider):
    """Streams chat completions. The request's model takes precedence over the provider's default."""

    kind = "openai"

    def __init__(self, *, base_url: str = "", api_key: str = "", default_model: str = "") -> None:
        super().__init__(
            base_url=base_url.strip() or DEFAULT_BASE_URL, api_key=api_key.strip(), default_model=default_model
        )
        self._client: AsyncOpenAI | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # Support of `stream_options`, by model, because a gateway may forward to different servers.
        self._takes_usage_option: dict[str, bool] = {}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        endpoint = self._endpoint(request)
        clock = Clock(request, endpoint)
        async with AsyncExitStack() as opened:
            response = await self._open(request, endpoint, clock, opened)
            is_stream = "event-stream" in response.headers.get("content-type", "")
            reader = AnswerReader(response.iter_bytes(), is_stream=is_stream, endpoint=endpoint, clock=clock)
            assembly = Assembly(endpoint)
            while not assembly.is_done and (payloads := await reader.next_payloads()) is not None:
                for payload in payloads:
                    for delta in assembly.add(payload):
                        yield delta
            deltas, whole = assembly.finish()
            await reader.finish()
            for delta in deltas:
                yield delta
            yield whole

    async def list_models(self, *, seconds: float) -> tuple[str, ...]:
        """Return the ids of `GET /models`."""
        endpoint = errors.Endpoint(self.base_url, "", self.api_key)
        _check_key(endpoint)
        headers = {} if endpoint.api_key else {"Authorization": openai.Omit()}
        try:
            async with asyncio.timeout(seconds):
                listed = await self._client_of_this_loop(endpoint).models.with_raw_response.list(extra_headers=headers)
                found = json.loads(listed.text)
            return tuple(str(model["id"]) for model in found["data"])
        except TimeoutError as error:
            raise errors.silent(endpoint, seconds) from error
        except openai.APIStatusError as error:
            raise errors.of_status(endpoint, error.status_code, error.body) from error
        except openai.APIConnectionError as error:
            raise errors.unreachable(endpoint, error) from error
        except (ValueError, TypeError, KeyError) as error:
            raise errors.not_a_model_server(endpoint) from error

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _open(
        self, request: ModelRequest, endpoint: errors.Endpoint, clock: Clock, opened: AsyncExitStack
    ) -> _Response:
        """Send the request and return when the headers of the response have arrived."""
        try:
            async with clock.wait():
                return await self._send_first(request, endpoint, opened)
        except TimeoutError as error:
            raise clock.fault() from error
        except openai.APIStatusError as error:
            wait = errors.retry_after_seconds(error.response.headers, now=datetime.now(UTC))
            raise errors.of_status(endpoint, error.status_code, error.body, wait=wait) from error
        except openai.APIConnectionError as error:
            raise errors.unreachable(endpoint, error) from error
        except http_stream.BROKEN_BODY as error:  # of an error response; the SDK does not catch it
            raise errors.stream_cut(endpoint, http_stream.BROKE_OFF) from error

    async def _send_first(self, request: ModelRequest, endpoint: errors.Endpoint, opened: AsyncExitStack) -> _Response:
        """Request the usage, too. If the server rejects that option, repeat without it and remember that."""
        takes_option = self._takes_usage_option.get(endpoint.model)
        if takes_option is False:
            return await self._send(request, endpoint, opened, asks_for_usage=False)
        try:
            response = await self._send(request, endpoint, opened, asks_for_usage=True)
            self._takes_usage_option[endpoint.model] = True
        except (openai.BadRequestError, openai.UnprocessableEntityError):
            if takes_option:
                raise
            response = await self._send(request, endpoint, opened, asks_for_usage=False)
            self._takes_usage_option[endpoint.model] = False
        return response

    async def _send(
        self, request: ModelRequest, endpoint: errors.Endpoint, opened: AsyncExitStack, *, asks_for_usage: bool
    ) -> _Response:
        body = encode_request(request, model=endpoint.model, asks_for_usage=asks_for_usage)
        completions = self._client_of_this_loop(endpoint).chat.completions
        # The SDK requires a key. Without one, the Authorization header is omitted.
        headers = {} if endpoint.api_key else {"Authorization": openai.Omit()}
        # In `extra_body`, because the SDK traverses named arguments, which is slow for long histories.
        call = completions.with_streaming_response.create(
            model=endpoint.model, messages=(), extra_body=body, extra_headers=headers
        )
        return await opened.enter_async_context(call)

    def _endpoint(self, request: ModelRequest) -> errors.Endpoint:
        endpoint = errors.Endpoint(self.base_url, request.model or self.default_model, self.api_key)
        if not endpoint.model:
            raise errors.no_model(endpoint)
        _check_key(endpoint)
        return endpoint

    def _client_of_this_loop(self, endpoint: errors.Endpoint) -> AsyncOpenAI:
        """Return the client of the running event loop: connections cannot be shared between loops."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._client, self._loop = _new_client(endpoint), loop
        return self._client


def _check_key(endpoint: errors.Endpoint) -> None:
    if not (endpoint.api_key.isascii() and endpoint.api_key.isprintable()):
        raise errors.bad_key(endpoint)


def _new_client(endpoint: errors.Endpoint) -> AsyncOpenAI:
    timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS)
    try:
        parts = urlsplit(endpoint.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise errors.bad_base_url()
        return AsyncOpenAI(
            base_url=endpoint.base_url,
            api_key=endpoint.api_key or "none",
            max_retries=0,
            timeout=timeout,
            http_client=openai.DefaultAsyncHttpxClient(limits=_LIMITS, timeout=timeout),
        )
    except (ValueError, httpx2.InvalidURL) as error:
        raise errors.bad_base_url() from error
