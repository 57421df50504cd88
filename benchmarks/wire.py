"""The load client's HTTP: one request a connection over plain sockets, to keep the client's CPU time negligible."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

_READ_BYTES = 65536


class Refused(Exception):
    """The server refused a request."""


@dataclass(frozen=True)
class Address:
    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


@dataclass(frozen=True)
class Answer:
    """headers: with lower-case names."""

    status: int
    headers: dict[str, str]
    body: bytes


async def request(
    address: Address, method: str, path: str, headers: Mapping[str, str], body: bytes = b"", *, seconds: float = 60
) -> Answer:
    """Send a request and return its answer. Raises OSError, TimeoutError."""
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        try:
            writer.write(head(address, method, path, {**headers, "connection": "close"}, len(body)) + body)
            received = await reader.read()
        finally:
            writer.close()
    top, _, rest = received.partition(b"\r\n\r\n")
    status, fields = parse_head(top)
    return Answer(status, fields, _unchunked(rest) if fields.get("transfer-encoding") == "chunked" else rest)


async def post_json(address: Address, path: str, headers: Mapping[str, str], data: Any) -> Answer:
    return await request(
        address, "POST", path, {**headers, "content-type": "application/json"}, json.dumps(data).encode()
    )


async def stream_json(address: Address, path: str, data: Any) -> AsyncIterator[bytes]:
    """POST and yield the parts of the answer as they arrive, framing included. Raises OSError."""
    body = json.dumps(data).encode()
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        headers = {"content-type": "application/json", "connection": "close"}
        writer.write(head(address, "POST", path, headers, len(body)) + body)
        while received := await reader.read(_READ_BYTES):
            yield received
            if received.endswith(b"0\r\n\r\n"):
                return
    finally:
        writer.close()


def head(address: Address, method: str, path: str, headers: Mapping[str, str], length: int | None = None) -> bytes:
    fields = {"host": f"{address.host}:{address.port}", **headers}
    if length is not None and method == "POST":
        fields["content-length"] = str(length)
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def parse_head(top: bytes) -> tuple[int, dict[str, str]]:
    """Return the status and the headers (names in lower case) of a response's head."""
    first, *lines = top.decode("latin-1").split("\r\n")
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(first.split(" ", 2)[1]), fields


def _unchunked(rest: bytes) -> bytes:
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        body, rest = body + rest[:length], rest[length + 2 :]
    return body
