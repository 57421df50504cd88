"""The load client's HTTP, against a server that follows the specification."""

import asyncio

from benchmarks.wire import Address, post_json, request

CHUNKED = b"HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n4\r\n end\r\n0\r\n\r\n"


async def answer_with(response: bytes, received: list[bytes]) -> tuple[asyncio.Server, Address]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(65536))
        writer.write(response)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, Address("127.0.0.1", server.sockets[0].getsockname()[1])


async def test_a_plain_answer_is_read_with_its_headers() -> None:
    server, address = await answer_with(b"HTTP/1.1 404 Not Found\r\nX-Request-Id: a\r\n\r\nno", received := [])
    async with server:
        answer = await request(address, "GET", "/x", {"cookie": "c=1"})
    assert (answer.status, answer.headers, answer.body) == (404, {"x-request-id": "a"}, b"no")
    assert b"GET /x HTTP/1.1\r\n" in received[0]
    assert b"cookie: c=1\r\n" in received[0]


async def test_a_chunked_answer_is_joined() -> None:
    server, address = await answer_with(CHUNKED, received := [])
    async with server:
        answer = await post_json(address, "/x", {}, {"a": 1})
    assert (answer.status, answer.body) == (202, b"{} end")
    assert received[0].endswith(b'content-length: 8\r\n\r\n{"a": 1}')
