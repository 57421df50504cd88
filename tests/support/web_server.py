"""The web server in a process of its own, with an application that floods, for tests on raw sockets."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.support.live_server import ROOT, START_SECONDS, clean_environment

STALL_SECONDS = 1.0
UPGRADE = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
)


@dataclass
class Serving:
    port: int
    process: "subprocess.Popen[bytes]"

    def connect(self, *, receive_buffer: int = 0) -> socket.socket:
        client = socket.socket()
        if receive_buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.settimeout(60)
        client.connect(("127.0.0.1", self.port))
        return client

    @property
    def memory(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)


@contextmanager
def start(folder: Path, **environment: str) -> Iterator[Serving]:
    """Start komand.server with an application that answers every request with 40 MB, by HTTP or WebSocket.

    environment: settings.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.komand.flood_app", str(listener.fileno()), str(STALL_SECONDS)],
            cwd=ROOT,
            env=clean_environment(KOMAND_DATA_DIR=str(folder), **environment),
            pass_fds=[listener.fileno()],
        )
        serving = Serving(listener.getsockname()[1], process)
        try:
            with serving.connect() as client:
                client.settimeout(START_SECONDS)  # until the server has started
                client.sendall(b"GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                assert b"200" in client.recv(100)
            yield serving
        finally:
            process.kill()  # asked to end, it would wait ten seconds for clients of the tests
            process.wait(30)


def request(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode()
