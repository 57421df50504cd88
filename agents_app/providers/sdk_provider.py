"""The base of providers for the APIs of OpenAI's SDK.

The SDK sends the request. The stream is parsed here, at a fraction of the cost of the SDK's objects.
"""

import asyncio
import json
from abc import abstractmethod
from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Any, ClassVar, Protocol
from urllib.parse import urlsplit

import httpx2
import openai
from openai import AsyncAPIResponse, AsyncOpenAI

from agents_app.providers import accepts, embeddings, errors, http_stream, transcription
from agents_app.providers.base import Provider
from agents_app.providers.http_stream import AnswerReader, Clock
from agents_app.providers.refused_parameters import find_refused
from agents_app.types import LoadedPart, ModelChunk, ModelRequest, ModelResponse, ReasoningDelta, TextDelta
from agents_app.types.embeddings import EmbeddingRequest, Embeddings
from agents_app.types.transcriptions import PLAIN, Transcription, TranscriptionOptions

DEFAULT_BASE_URL = "https://api.openai.com/v1"
CONNECT_SECONDS = 10.0
# The engine limits the number of streams. Idle connections save the next call a handshake, but each call
# asks the kernel about every one of them: 200, as a burst leaves them, triple its CPU time.
IDLE_CONNECTIONS = 16
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=IDLE_CONNECTIONS, keepalive_expiry=30.0)
_MOST_REPEATS = 6  # of a request, each without one more refused parameter
_REFUSALS = (openai.BadRequestError, openai.UnprocessableEntityError)

SdkResponse = AsyncAPIResponse[Any]


class Assembly(Protocol):
    """The response under construction: `add` payloads and receive deltas, then `finish`. Both raise ProviderError."""

    is_done: bool

    def add(self, payload: bytes) -> Sequence[TextDelta | ReasoningDelta]: ...

    def finish(self) -> tuple[Sequence[TextDelta | ReasoningDelta], ModelResponse]: ...

    def report_usage(self, kind: object, error: object, traceback: object) -> None: ...


class SdkProvider(Provider):
    """Streams responses of one API. The request's model takes precedence over the provider's default."""

    refused_once: ClassVar[frozenset[str]] = frozenset()  # parts that the next request contains again

    def __init__(self, *, base_url: str = "", api_key: str = "", default_model: str = "") -> None:
        super().__init__(
            base_url=base_url.strip() or DEFAULT_BASE_URL, api_key=api_key.strip(), default_model=default_model
        )
        self._client: AsyncOpenAI | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # By model, because a gateway may forward to different servers.
        self._refused: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
        self._accepting: set[str] = set()  # models that have accepted a request

    def known_parts(self, model: str) -> frozenset[str]:
        """Images and audio by the model's name, and PDF files of models that see images, on OpenAI's own server."""
        known = accepts.kinds_by_name(model)
        is_openai = urlsplit(self.base_url).hostname == urlsplit(DEFAULT_BASE_URL).hostname
        return known | {"file"} if is_openai and "image" in known else known

    @abstractmethod
    def encode(self, request: ModelRequest, endpoint: errors.Endpoint, refused: frozenset[str]) -> dict[str, Any]:
        """Return the body of a request. refused: names of optional parts that the server does not accept."""

    @abstractmethod
    def optional_parts(self, body: dict[str, Any]) -> Sequence[str]:
        """Return the names of the parts of a body that `encode` can leave out.

        The first is left out if the server refuses a request without a reason.
        """

    @abstractmethod
    def call(
        self, client: AsyncOpenAI, body: dict[str, Any], headers: dict[str, Any]
    ) -> AbstractAsyncContextManager[SdkResponse]:
        """Return the call of the SDK."""

    @abstractmethod
    def assembly(self, request: ModelRequest, endpoint: errors.Endpoint) -> Assembly:
        """Return the empty response to a request."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        endpoint = self._endpoint(request)
        clock = Clock(request, endpoint)
        async with AsyncExitStack() as opened:
            response = await self._open(request, endpoint, clock, opened)
            is_stream = "event-stream" in response.headers.get("content-type", "")
            reader = AnswerReader(response.iter_bytes(), is_stream=is_stream, endpoint=endpoint, clock=clock)
            assembly = self.assembly(request, endpoint)
            opened.push(assembly.report_usage)
            while not assembly.is_done and (payloads := await reader.next_payloads()) is not None:
                for payload in payloads:
                    for delta in assembly.add(payload):
                        yield delta
            deltas, whole = assembly.finish()
            await reader.finish()
            for delta in deltas:
                yield delta
            yield whole

    async def transcribe(
        self, audio: LoadedPart, *, model: str, seconds: float, options: TranscriptionOptions = PLAIN
    ) -> Transcription:
        """Return the response of `POST /audio/transcriptions`."""
        endpoint = errors.Endpoint(self.base_url, model, self.api_key)
        async with _asking(endpoint, seconds):
            transcriptions = self._client_of_this_loop(endpoint).audio.transcriptions
            file = (transcription.name_of(audio), audio.data, audio.mime_type)
            answer = await transcriptions.with_raw_response.create(
                file=file, model=model, extra_headers=_headers(endpoint), **transcription.encode(options)
            )
            return transcription.read(answer.text)

    async def embed(self, request: EmbeddingRequest, *, seconds: float) -> Embeddings:
        """Return the response of `POST /embeddings`."""
        endpoint = errors.Endpoint(self.base_url, request.model, self.api_key)
        async with _asking(endpoint, seconds):
            created = self._client_of_this_loop(endpoint).embeddings.with_raw_response
            # In `extra_body`, because the SDK traverses named arguments.
            answer = await created.create(
                model=request.model,
                input="",
                encoding_format="float",
                extra_body=embeddings.encode(request),
                extra_headers=_headers(endpoint),
            )
            return await asyncio.to_thread(embeddings.read, answer.text, request)

    async def list_models(self, *, seconds: float) -> tuple[str, ...]:
        """Return the ids of `GET /models`."""
        endpoint = errors.Endpoint(self.base_url, "", self.api_key)
        async with _asking(endpoint, seconds):
            models = self._client_of_this_loop(endpoint).models
            listed = await models.with_raw_response.list(extra_headers=_headers(endpoint))
            return tuple(str(model["id"]) for model in json.loads(listed.text)["data"])

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _open(
        self, request: ModelRequest, endpoint: errors.Endpoint, clock: Clock, opened: AsyncExitStack
    ) -> SdkResponse:
        """Send the request and return when the headers of the response have arrived."""
        try:
            async with clock.wait():
                return await self._send_accepted(request, endpoint, opened)
        except TimeoutError as error:
            raise clock.fault() from error
        except openai.APIStatusError as error:
            wait = errors.retry_after_seconds(error.response.headers, now=datetime.now(UTC))
            raise errors.of_status(endpoint, error.status_code, error.body, wait=wait) from error
        except openai.APIConnectionError as error:
            raise errors.unreachable(endpoint, error) from error
        except http_stream.BROKEN_BODY as error:  # of an error response; the SDK does not catch it
            raise errors.stream_cut(endpoint, http_stream.BROKE_OFF) from error

    async def _send_accepted(
        self, request: ModelRequest, endpoint: errors.Endpoint, opened: AsyncExitStack
    ) -> SdkResponse:
        """Send the request; if the server refuses an optional part, repeat it without, and remember that."""
        model = endpoint.model
        refused = self._refused[model]
        client, headers = self._client_of_this_loop(endpoint), _headers(endpoint)
        for repeats in range(_MOST_REPEATS + 1):
            body = self.encode(request, endpoint, refused)
            try:
                response = await opened.enter_async_context(self.call(client, body, headers))
                break
            except _REFUSALS as error:
                name = self._part_to_leave_out(error, body, endpoint, may_guess=repeats == 0)
                if not name or name in refused or repeats == _MOST_REPEATS:
                    raise
                refused |= {name}
        self._refused[model] |= refused - self.refused_once
        self._accepting.add(model)
        return response

    def _part_to_leave_out(
        self, error: openai.APIStatusError, body: dict[str, Any], endpoint: errors.Endpoint, *, may_guess: bool
    ) -> str:
        """Return the part of the request that the server may refuse; empty if its error has another cause.

        may_guess: leave out the first part if the error does not say why, and the model has accepted nothing yet
        """
        known = errors.of_status(endpoint, error.status_code, error.body)
        if known.code != "model_bad_request" or known.another_model_helps:  # the request is not at fault
            return ""
        parts = self.optional_parts(body)
        if name := find_refused(error.body, parts):
            return name
        return parts[0] if parts and may_guess and endpoint.model not in self._accepting else ""

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


@asynccontextmanager
async def _asking(endpoint: errors.Endpoint, seconds: float) -> AsyncGenerator[None, None]:
    """Limit the time of a call without a stream, and turn its errors into ProviderError."""
    _check_key(endpoint)
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise errors.silent(endpoint, seconds) from error
    except openai.APIStatusError as error:
        wait = errors.retry_after_seconds(error.response.headers, now=datetime.now(UTC))
        raise errors.of_status(endpoint, error.status_code, error.body, wait=wait) from error
    except openai.APIConnectionError as error:
        raise errors.unreachable(endpoint, error) from error
    except (ValueError, TypeError, KeyError) as error:
        raise errors.not_a_model_server(endpoint) from error


def _headers(endpoint: errors.Endpoint) -> dict[str, Any]:
    """Return the headers of a call. The SDK requires a key; without one, the Authorization header is omitted."""
    return {} if endpoint.api_key else {"Authorization": openai.Omit()}


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
            # A redirect would let the server choose where conversations go, also within this network.
            http_client=openai.DefaultAsyncHttpxClient(limits=_LIMITS, timeout=timeout, follow_redirects=False),
        )
    except (ValueError, httpx2.InvalidURL) as error:
        raise errors.bad_base_url() from error
