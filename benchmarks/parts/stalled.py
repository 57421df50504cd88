"""Viewers that open a page and never read: their cost, the time until they are cut off, and what a resume returns."""

import asyncio
import select
import socket
import time

import psutil

from benchmarks.figures import Figure
from benchmarks.installation import Installation
from benchmarks.scale import Scale
from benchmarks.viewers import GatewayViewer
from benchmarks.websocket import WebSocket, upgrade_headers
from benchmarks.wire import head

PART = "stalled"
_TOKENS = 6_000  # at once, in each of the runs: some megabytes for each viewer in all
_WITHIN_SECONDS = 30.0
_RUNS = 20
_RECEIVE_BYTES = 4096


async def measure(installation: Installation, scale: Scale) -> list[Figure]:
    [sender] = installation.viewers(1)
    await sender.open()
    await sender.ask(30, _WITHIN_SECONDS)  # warms the process up
    sender.close()
    stalled = [_Stalled(sender) for _ in range(scale.stalled)]
    web = psutil.Process(installation.pids()["web"])
    await asyncio.sleep(1)
    before, most = web.memory_info().rss, 0
    begun, cut = time.monotonic(), 0.0
    for _ in range(_RUNS):
        await sender.send(f"[[tokens={_TOKENS} rate=0]]")
    while time.monotonic() - begun < 4 * _WITHIN_SECONDS:
        most = max(most, web.memory_info().rss)
        if not cut and all(viewer.is_cut for viewer in stalled):
            cut = time.monotonic() - begun
        if cut and not await installation.count_open():
            break
        await asyncio.sleep(0.1)
    for viewer in stalled:
        viewer.close()
    received = await _come_back(sender)
    each = (most - before) / scale.stalled / 1e6
    return [
        Figure(PART, f"RSS of web for each of {scale.stalled} viewers that never read", each, "MB", target=1),
        Figure(PART, "cut off, the last of them", cut or float("inf"), "s", target=_WITHIN_SECONDS),
        Figure(PART, "answers whole when they come back", received, f"of {_RUNS + 1}", target=_RUNS + 1, at_least=True),
    ]


async def _come_back(viewer: GatewayViewer) -> int:
    """Return the number of answers that a viewer receives when it resumes from the start."""
    received = 0

    def see(text: bytes, at: float) -> None:
        nonlocal received
        received += text.count(b'"do":"answer"')

    socket = await WebSocket.open(viewer.address, f"{viewer.path}?cursor=0", viewer.page_headers, see)
    deadline = time.monotonic() + _WITHIN_SECONDS
    while received <= _RUNS and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    socket.close()
    return received


class _Stalled:
    """A WebSocket client with a small receive window that reads nothing after the handshake."""

    def __init__(self, like: GatewayViewer) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
        self._socket.connect((like.address.host, like.address.port))
        self._socket.sendall(head(like.address, "GET", like.path, {**like.page_headers, **upgrade_headers()}))
        self._poll = select.poll()
        self._poll.register(self._socket, 0)

    @property
    def is_cut(self) -> bool:
        """Return whether the server has closed the connection, without reading from it."""
        return bool(self._poll.poll(0))

    def close(self) -> None:
        self._socket.close()
