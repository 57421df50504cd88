"""The OpenAI provider with invalid addresses, keys and models: a clear error for each."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from agents_app.providers.base import ProviderError
from agents_app.providers.kinds.openai import OpenAIProvider
from tests.fakes.model_server import ModelServer
from tests.fakes.streams import collect, request_of

pytestmark = pytest.mark.one_database

KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


async def failure(provider: OpenAIProvider, text: str) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await collect(provider, request_of(text))
    return caught.value


async def test_without_a_key_none_is_sent(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    provider = OpenAIProvider(base_url=server.base_url, default_model="fake")
    await collect(provider, request_of("[[tokens=1]]"))
    await provider.aclose()
    assert "authorization" not in server.requests[-1].headers


@pytest.mark.parametrize(
    ("base_url", "code", "expected"),
    [
        ("http://127.0.0.1:1/v1", "model_unreachable", "refuses connections"),
        ("localhost:11434/v1", "model_bad_request", "base URL is not valid"),
        ("http://", "model_bad_request", "base URL is not valid"),
        ("http://a:99999/v1", "model_bad_request", "base URL is not valid"),
        ("ftp://example.com", "model_bad_request", "base URL is not valid"),
    ],
)
async def test_a_wrong_base_url_is_a_clear_error(base_url: str, code: str, expected: str) -> None:
    provider = OpenAIProvider(base_url=base_url, api_key=KEY, default_model="fake")
    error = await failure(provider, "hello")
    await provider.aclose()
    assert error.code == code and expected in error.message


async def test_an_unknown_name_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    provider = OpenAIProvider(base_url="http://no-such-host.invalid/v1", api_key=KEY, default_model="fake")
    error = await failure(provider, "hello")
    await provider.aclose()
    assert error.code == "model_unreachable" and "host name cannot be resolved" in error.message


@pytest.mark.parametrize(
    ("scheme", "answer", "expected"),
    [("http", b"", "connection failed"), ("https", b"HTTP/1.1 400 Bad Request\r\n\r\n", "TLS")],
    ids=["hangs-up", "speaks-no-tls"],
)
async def test_a_server_that_does_not_speak_http_is_unreachable(scheme: str, answer: bytes, expected: str) -> None:
    async with answering(answer, scheme) as provider:
        error = await failure(provider, "hello")
    assert (error.code, error.retryable) == ("model_unreachable", True) and expected in error.message


EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"HTTP/1.1 503 X\r\nContent-Length: 100\r\n\r\n{", "model_stream_cut"),
        (b"HTTP/1.1 503 X\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", "model_stream_cut"),
        (b'HTTP/1.1 503 X\r\n\r\n{"error": "a\\ud800\\u0000b"}', "model_error"),
        (EVENTS + b'data: {"error": {"code": "\xc2\xb2", "message": "a\\ud800\\u0000b"}}\n\n', "model_error"),
    ],
    ids=["cut off", "badly packed", "words that cannot be stored", "a number that is none"],
)
async def test_an_invalid_error_response_is_a_model_error(answer: bytes, code: str) -> None:
    async with answering(answer) as provider:
        error = await failure(provider, "hello")
    assert (error.code, error.retryable) == (code, True)
    assert "\0" not in error.message and error.message.encode()


async def test_a_reason_that_cannot_be_stored_is_no_reason_to_lose_the_answer() -> None:
    answer = b'data: {"choices": [{"delta": {"content": "Hi."}, "finish_reason": "a\\ud800\\u0000b"}]}\n\n'
    async with answering(EVENTS + answer) as provider:
        response = (await collect(provider, request_of("hello"))).responses[-1]
    assert response.text == "Hi." and "\0" not in response.finish_reason and response.finish_reason.encode()


@asynccontextmanager
async def answering(answer: bytes, scheme: str = "http") -> AsyncIterator[OpenAIProvider]:
    """Yield a provider whose server sends this response to every request and disconnects."""

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if answer.startswith(b"HTTP/1.1") and scheme == "http":
            await reader.read(65536)
        writer.write(answer)
        writer.close()

    listening = await asyncio.start_server(reply, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    provider = OpenAIProvider(base_url=f"{scheme}://127.0.0.1:{port}/v1", api_key=KEY, default_model="fake")
    try:
        yield provider
    finally:
        await provider.aclose()
        listening.close()


@pytest.mark.parametrize("key", ["sk-\nline", "sk-ключ", "sk-\x00"])
async def test_a_key_that_cannot_be_sent_is_a_clear_error(server: ModelServer, key: str) -> None:
    provider = OpenAIProvider(base_url=server.base_url, api_key=key, default_model="fake")
    assert (await failure(provider, "hello")).code == "model_auth"
    assert server.count == 0


async def test_without_any_model_it_asks_for_one(server: ModelServer) -> None:
    error = await failure(OpenAIProvider(base_url=server.base_url, api_key=KEY), "hello")
    assert error.code == "model_bad_request" and "No model is chosen" in error.message
