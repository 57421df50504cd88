"""komand.server with an application of its own: `python -m tests.integration.komand.flood_app FD STALL_SECONDS`."""

import asyncio
import os
import socket
import sys
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "komand.settings.web")

from komand import asgi, server, web_shutdown

PIECE = b"x" * 16_384
PIECES = 2_500
LARGE_PIECES = 200


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        if scope["path"] == "/flood":
            for _ in range(PIECES):
                await send({"type": "websocket.send", "bytes": PIECE})
        if scope["path"] == "/large":
            await send({"type": "websocket.send", "bytes": PIECE * LARGE_PIECES})
        await asyncio.Event().wait()
    if scope["path"] == "/late":
        await asyncio.Event().wait()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(PIECES if scope["path"] == "/flood" else 1):
        await send({"type": "http.response.body", "body": PIECE, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


if __name__ == "__main__":
    asgi.application = application  # type: ignore[assignment]
    server.STALL_SECONDS = float(sys.argv[2])
    # Tests on a busy machine.
    web_shutdown.FRESH_SECONDS = web_shutdown.KEPT_SECONDS = web_shutdown.REQUEST_SECONDS = 20.0
    server.WebServer(socket.socket(fileno=int(sys.argv[1])), is_shared=True).run()
