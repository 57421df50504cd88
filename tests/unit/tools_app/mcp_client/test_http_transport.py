"""The HTTP transports of the MCP client: what they accept from a server."""

from collections.abc import AsyncIterator

import httpx2
import pytest

from tools_app.mcp_client import http_transport
from tools_app.mcp_client.config import MAX_MESSAGE_BYTES, ServerConfig
from tools_app.mcp_client.connection import Connection
from tools_app.mcp_client.errors import ServerFault

EVENTS = {"Content-Type": "text/event-stream"}


async def pieces(count: int, size: int = 1_000_000) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b"x" * size


async def fetch(monkeypatch: pytest.MonkeyPatch, answer: httpx2.Response) -> bytes:
    """Return the body that our client reads of this response."""
    monkeypatch.setattr(http_transport, "_BYTES_PER_SECOND", 1)  # a slow machine would be allowed more
    client = http_transport._client(ServerConfig("srv", "streamable_http"), lambda fault: None)
    monkeypatch.setattr(client._transport, "_inner", httpx2.MockTransport(lambda request: answer))
    async with client:
        return (await client.get("http://server/")).content


async def test_an_answer_of_usual_size_is_taken(monkeypatch):
    assert await fetch(monkeypatch, httpx2.Response(200, content=b"{}")) == b"{}"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (httpx2.Response(200, content=pieces(5)), f"more than {MAX_MESSAGE_BYTES // 1024} KB"),
        (httpx2.Response(200, headers=EVENTS, content=pieces(70)), "more data than is allowed"),
        (httpx2.Response(200, headers={"Content-Encoding": "gzip"}, content=b"x"), "compressed response"),
    ],
)
async def test_an_answer_that_outgrows_what_is_held_breaks_off(monkeypatch, answer, problem):
    with pytest.raises(httpx2.ReadError, match=problem):
        await fetch(monkeypatch, answer)


async def test_a_long_stream_of_events_is_taken_as_it_comes(monkeypatch):
    answer = httpx2.Response(200, headers=EVENTS, content=pieces(6))
    assert len(await fetch(monkeypatch, answer)) == 6_000_000


async def test_a_redirect_to_another_host_is_not_followed(monkeypatch):
    asked: list[str] = []

    def send_away(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.host)
        return httpx2.Response(307, headers={"Location": "http://inside.example/mcp"})

    monkeypatch.setattr(httpx2, "AsyncHTTPTransport", lambda **_: httpx2.MockTransport(send_away))
    connection = Connection(ServerConfig("away", "streamable_http", url="http://server.example/mcp"))
    with pytest.raises(ServerFault, match="not followed"):
        await connection.open()
    assert set(asked) == {"server.example"}
