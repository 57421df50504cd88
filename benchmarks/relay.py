"""The baseline: a relay of a model's tokens to a WebSocket, without database, login or history.

The difference to the gateway is the cost of durable runs.
"""

import argparse
import asyncio
import json
import signal
import sys

import httpx2
from websockets.asyncio.server import Server, ServerConnection, serve


class Relay:
    """Answers each text message of a WebSocket with the model's tokens, one frame each."""

    def __init__(self, model_url: str) -> None:
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=200)
        self._model = httpx2.AsyncClient(base_url=model_url, limits=limits, timeout=60, trust_env=False)

    async def handle(self, socket: ServerConnection) -> None:
        async for text in socket:
            body = {"model": "fake", "stream": True, "messages": [{"role": "user", "content": text}]}
            async with self._model.stream("POST", "/chat/completions", json=body) as response:
                async for line in response.aiter_lines():
                    if line.startswith("data: {"):
                        await self._pass_on(line[6:], socket)

    @staticmethod
    async def _pass_on(data: str, socket: ServerConnection) -> None:
        for choice in json.loads(data)["choices"]:
            if token := choice["delta"].get("content"):
                await socket.send(token)

    async def aclose(self) -> None:
        await self._model.aclose()


async def run(model_url: str) -> None:
    """Serve on a free port, which is printed, until SIGTERM."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    relay = Relay(model_url)
    async with serve(relay.handle, "127.0.0.1", 0, compression=None, backlog=1024) as server:
        sys.stdout.write(f"listening on {_url(server)}\n")
        sys.stdout.flush()
        await stopped.wait()
    await relay.aclose()


def _url(server: Server) -> str:
    host, port = next(iter(server.sockets)).getsockname()[:2]
    return f"ws://{host}:{port}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.relay", description=__doc__)
    parser.add_argument("--model-url", required=True)
    asyncio.run(run(parser.parse_args().model_url))


if __name__ == "__main__":
    main()
