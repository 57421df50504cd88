"""An HTTP transport that connects only to addresses that `ssrf_guard` permits, within a budget of time and bytes."""

import ssl
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpcore2
import httpx2

from tools_app.network import ssrf_guard
from tools_app.network.async_transport import ADDRESSES_TRIED, LOOK_UP_SECONDS, ssl_context, to_core
from tools_app.types import ToolError

_CONNECT_SECONDS = 5.0


class Budget:
    """Limits of one fetch, over all its redirects: seconds from now, and bytes received.

    A server that sends one byte at a time never exceeds a read timeout; it does exceed this budget.
    """

    def __init__(self, *, seconds: float, wire_bytes: int) -> None:
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._bytes_left = wire_bytes

    def seconds(self, at_most: float | None = None) -> float:
        """Return the remaining seconds, at most `at_most`. Raises ToolError if there are none."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise ToolError(f"The page was not fetched within {self._seconds:.0f} seconds.")
        return left if at_most is None else min(left, at_most)

    def spend(self, count: int) -> None:
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise ToolError("The server sent more data than is allowed.")


@contextmanager
def fault_texts() -> Iterator[None]:
    """Convert network and server errors to ToolErrors with messages for the model."""
    try:
        yield
    except (httpx2.TimeoutException, httpcore2.TimeoutException):
        raise ToolError("The server did not answer in time.") from None
    except (httpx2.DecodingError, httpx2.RemoteProtocolError, httpcore2.ProtocolError) as error:
        raise ToolError(f"The server's response is malformed: {error}") from None
    except (httpx2.HTTPError, httpcore2.NetworkError) as error:
        raise ToolError(f"The server cannot be reached: {error}") from None


class GuardedTransport(httpx2.BaseTransport):
    """A transport for one fetch: a new connection pool whose connections are resolved, checked and metered."""

    def __init__(self, budget: Budget, allowed_private: Collection[str]) -> None:
        backend = _GuardedBackend(budget, allowed_private)
        self._pool = httpcore2.ConnectionPool(ssl_context=ssl_context(), network_backend=backend, max_connections=1)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = self._pool.handle_request(to_core(request, request.url))
        body = _Body(answer)
        return httpx2.Response(answer.status, headers=answer.headers, stream=body, extensions=answer.extensions)

    def close(self) -> None:
        self._pool.close()


class _Body(httpx2.SyncByteStream):
    def __init__(self, answer: httpcore2.Response) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        return self._answer.iter_stream()

    def close(self) -> None:
        self._answer.close()


class _GuardedBackend(httpcore2.NetworkBackend):
    def __init__(self, budget: Budget, allowed_private: Collection[str]) -> None:
        self._sockets = httpcore2.SyncBackend()
        self._budget = budget
        self._allowed_private = allowed_private

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        seconds = self._budget.seconds(LOOK_UP_SECONDS)
        addresses = ssrf_guard.resolve(host, port, seconds=seconds, allowed_private=self._allowed_private)
        *others, last = addresses[:ADDRESSES_TRIED]
        for address in others:
            try:
                return self._connect(address, port)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return self._connect(last, port)

    def _connect(self, address: str, port: int) -> httpcore2.NetworkStream:
        stream = self._sockets.connect_tcp(address, port, timeout=self._budget.seconds(_CONNECT_SECONDS))
        return _MeteredStream(stream, self._budget)


class _MeteredStream(httpcore2.NetworkStream):
    def __init__(self, stream: httpcore2.NetworkStream, budget: Budget) -> None:
        self._stream = stream
        self._budget = budget

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = self._stream.read(max_bytes, timeout=self._budget.seconds(timeout))
        self._budget.spend(len(data))
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, timeout=self._budget.seconds(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        secured = self._stream.start_tls(ssl_context, server_hostname, timeout=self._budget.seconds(timeout))
        return _MeteredStream(secured, self._budget)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
