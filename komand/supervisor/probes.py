"""Probes of the processes over plain sockets: HTTP status, readiness and watchdog messages."""

import asyncio
import re
import socket
from collections.abc import Callable
from pathlib import Path


async def http_status(host: str, port: int, path: str, seconds: float) -> int:
    """Return the status of a GET, or 0 if no answer comes in time. host: an address of this machine."""
    target = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host.strip("[]"))  # noqa: S104 - compared, not bound
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(target, port)
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                line = await reader.readline()
                return int(line.split()[1])
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError, IndexError):
        return 0


OnMessage = Callable[[int], None]


class LifeMessages(asyncio.DatagramProtocol):
    """Receives systemd's `READY=1` and `WATCHDOG=1` messages and our own `X_KOMAND_SOCKETS=1`; the callbacks get the
    sender's process id."""

    def __init__(self, on_ready: OnMessage, on_beat: OnMessage, on_demand: OnMessage) -> None:
        self._callbacks = {b"READY=1": on_ready, b"WATCHDOG=1": on_beat, b"X_KOMAND_SOCKETS=1": on_demand}

    def datagram_received(self, data: bytes, addr: object) -> None:
        found = re.search(rb"MAINPID=(\d+)", data)
        for line in data.split(b"\n"):
            if found and line in self._callbacks:
                self._callbacks[line](int(found.group(1)))

    @classmethod
    async def listen(
        cls, path: Path, on_ready: OnMessage, on_beat: OnMessage, on_demand: OnMessage = lambda pid: None
    ) -> asyncio.DatagramTransport:
        path.unlink(missing_ok=True)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(
            lambda: cls(on_ready, on_beat, on_demand), local_addr=str(path), family=socket.AF_UNIX
        )
        return transport
