"""WebSocket connections to platforms, with errors that state whether the connection can be opened again."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from sessions_app.platforms.base import MIB
from sessions_app.platforms.link import ConnectionLost, Link
from tools_app.network.async_transport import ssl_context

# At DEBUG, the library logs each frame, such as the one by which we log in with a token.
_connections = logging.getLogger(f"{__name__}.connections")
_connections.setLevel(logging.INFO)

PING_SECONDS = 25.0
_OPEN_SECONDS, _CLOSE_SECONDS = 10.0, 2.0
_MOST_BYTES = 8 * MIB


@asynccontextmanager
async def open_socket(url: str) -> AsyncIterator[ClientConnection]:
    """Open a WebSocket. Raises ConnectionLost if that fails, and if it closes inside of the block."""
    try:
        socket = await connect(
            url,
            ssl=ssl_context() if url.startswith("wss://") else None,
            open_timeout=_OPEN_SECONDS,
            close_timeout=_CLOSE_SECONDS,
            ping_interval=None,
            max_size=_MOST_BYTES,
            proxy=None,
            logger=_connections,
        )
    except (OSError, WebSocketException, TimeoutError, ValueError) as error:
        raise ConnectionLost(f"The connection could not be opened ({type(error).__name__}).") from None
    try:
        async with socket:
            yield socket
    except ConnectionClosed as error:
        code = error.rcvd.code if error.rcvd else "without a close frame"
        raise ConnectionLost(f"The connection was closed ({code}).") from None


async def read_messages(socket: ClientConnection, link: Link) -> AsyncGenerator[Mapping[str, Any], None]:
    """Yield the JSON objects that arrive. Each one, and each answer to a ping of ours, is a heartbeat.

    Others are skipped. Raises ConnectionClosed at the end.
    """
    pinging = asyncio.create_task(_ping(socket, link))
    try:
        while True:
            text = await socket.recv()
            link.heartbeat()
            message = None
            with suppress(ValueError, RecursionError):
                message = json.loads(text)
            if isinstance(message, dict):
                yield message
    finally:
        pinging.cancel()
        await asyncio.gather(pinging, return_exceptions=True)


async def _ping(socket: ClientConnection, link: Link) -> None:
    while True:
        await (await socket.ping())
        link.heartbeat()
        await asyncio.sleep(PING_SECONDS)
