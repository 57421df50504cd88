"""Viewers that open a page and never read: what they cost the server, how soon they are cut off, and what they see
when they come back.
"""

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
    [asker] = installation.viewers(1)
    await asker.open()
    await asker.ask(30, _WITHIN_SECONDS)  # what the first answer of all costs is not theirs
    asker.close()
    stalled = [_Stalled(asker) for _ in range(scale.stalled)]
    web = psutil.Process(installation.pids()["web"])
    await asyncio.sleep(1)
    before, most = web.memory_info().rss, 0
    begun, cut = time.monotonic(), 0.0
    for _ in range(_RUNS):
        await asker.send(f"[[tokens={_TOKENS} rate=0]]")
    while time.monotonic() - begun < 4 * _WITHIN_SECONDS:
        most = max(most, web.memory_info().rss)
        if not cut and all(viewer.is_cut for viewer in stalled):
            cut = time.monotonic() - begun
        if cut and not await installation.count_open():
            break
        await asyncio.sleep(0.1)
    for viewer in stalled:
        viewer.close()
    told = await _come_back(asker)
    each = (most - before) / scale.stalled / 1e6
    return [
        Figure(PART, f"RSS of web for each of {scale.stalled} viewers that never read", each, "MB", target=1),
        Figure(PART, "cut off, the last of them", cut or float("inf"), "s", target=_WITHIN_SECONDS),
        Figure(PART, "answers whole when they come back", told, f"of {_RUNS + 1}", target=_RUNS + 1, at_least=True),
    ]


async def _come_back(viewer: GatewayViewer) -> int:
    """How many answers a viewer is told who comes back to where it began."""
    told = 0

    def see(text: bytes, at: float) -> None:
        nonlocal told
        told += text.count(b'"do":"answer"')

    socket = await WebSocket.open(viewer.address, f"{viewer.path}?cursor=0", viewer.page_headers, see)
    deadline = time.monotonic() + _WITHIN_SECONDS
    while told <= _RUNS and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    socket.close()
    return told


class _Stalled:
    """A handshake, a small window, and then nothing."""

    def __init__(self, like: GatewayViewer) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
        self._socket.connect((like.address.host, like.address.port))
        self._socket.sendall(head(like.address, "GET", like.path, {**like.page_headers, **upgrade_headers()}))
        self._poll = select.poll()
        self._poll.register(self._socket, 0)

    @property
    def is_cut(self) -> bool:
        """Whether the server has given the connection up: the system tells without anything being read."""
        return bool(self._poll.poll(0))

    def close(self) -> None:
        self._socket.close()
