"""Self-test of the isolation: attempts what the code of the `python` tool must not be able to do.

Runs in the isolated process before the code. A restriction counts as held only if the kernel refused every attempt.
"""
# ruff: noqa: S103 - what the attempts are directed at is open to all, so that only the isolation can refuse

import _socket
import ctypes
import errno
import fcntl
import os
from collections.abc import Callable

_REFUSALS = {errno.EPERM, errno.EACCES, errno.ESRCH}
READABLE = "readable"  # the only file of the folder that the process may read
_SOCKET = "../socket"  # short: the whole path may be longer than a socket's can be
_PIDFD_OPEN = 434  # on every architecture


class Targets:
    """Targets of the attempts, which are open to the process, so that only the isolation can refuse.

    folder: holds the files and the socket.
    worker: the id of another process.
    """

    def __init__(self, folder: str, worker: int) -> None:
        """Create files and sockets, before the isolation, in a folder that is the parent of the working directory."""
        self.folder, self.worker = folder, worker
        os.chmod(folder, 0o711)
        for name in ("hidden", READABLE, "removable"):
            os.close(os.open(self.path(name), os.O_WRONLY | os.O_CREAT))
            os.chmod(self.path(name), 0o666)
        self._listener = _socket.socket(_socket.AF_UNIX)
        self._listener.bind(_SOCKET)
        self._listener.listen(1)
        os.chmod(_SOCKET, 0o666)
        self.connector = _socket.socket(_socket.AF_UNIX)

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def close(self) -> None:
        self._listener.close()
        self.connector.close()


def attempt_all(targets: Targets) -> dict[str, list[str]]:
    """Return for each restriction the attempts that were not refused; none: it is held."""
    attempts = {
        "network": _on_network(targets),
        "files": _on_files(targets),
        "programs": _on_programs(),
        "processes": _on_processes(targets),
    }
    return {
        name: [text for text, attempt in group.items() if not _is_refused(attempt)] for name, group in attempts.items()
    }


def _is_refused(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError as error:
        return error.errno in _REFUSALS
    except AttributeError:  # another system than Linux
        return False
    return False


def _on_network(targets: Targets) -> dict[str, Callable[[], object]]:
    connect = targets.connector.connect
    return {
        "make an internet socket": lambda: _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM),
        "make a local socket": lambda: _socket.socket(_socket.AF_UNIX),
        "connect to a socket of this machine": lambda: connect(_SOCKET),
        "connect to an abstract socket": lambda: connect(b"\0komand-self-test"),
    }


def _on_files(targets: Targets) -> dict[str, Callable[[], object]]:
    readable = targets.path(READABLE)

    def attempt_open(path: str, flags: int) -> Callable[[], object]:
        return lambda: os.close(os.open(path, flags))

    return {
        "read a file": attempt_open(targets.path("hidden"), os.O_RDONLY),
        "list a folder": lambda: os.listdir(targets.folder),
        "read what the kernel shows of processes": attempt_open("/proc/version", os.O_RDONLY),
        "write a file": attempt_open(readable, os.O_WRONLY),
        "truncate a file that may be read": attempt_open(readable, os.O_RDONLY | os.O_TRUNC),
        "truncate a file": lambda: os.truncate(readable, 0),
        "change the mode of a file": lambda: os.chmod(readable, 0o666),
        "change the times of a file": lambda: os.utime(readable),
        "create a file": attempt_open(targets.path("new"), os.O_WRONLY | os.O_CREAT),
        "remove a file": lambda: os.unlink(targets.path("removable")),
    }


def _on_programs() -> dict[str, Callable[[], object]]:
    def fork() -> None:
        if os.fork() == 0:
            os._exit(0)

    return {
        "start a process": fork,
        "become another program": lambda: os.execv("/nothing-here", ["nothing"]),  # noqa: S606 - is refused
        "make a program in memory": lambda: os.close(os.memfd_create("program")),
    }


def _on_processes(targets: Targets) -> dict[str, Callable[[], object]]:
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(8)
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)

    def check(result: int) -> None:
        if result < 0:
            raise OSError(ctypes.get_errno(), "")

    def let_others_be_signalled() -> None:
        reading, writing = os.pipe()
        try:
            fcntl.fcntl(reading, fcntl.F_SETOWN, targets.worker)
        finally:
            os.close(reading)
            os.close(writing)

    return {
        "signal another process": lambda: os.kill(targets.worker, 0),
        "let the kernel signal another process": let_others_be_signalled,
        "open another process": lambda: check(libc.syscall(_PIDFD_OPEN, targets.worker, 0)),
        "read the memory of another process": lambda: check(
            libc.process_vm_readv(targets.worker, vector, 1, vector, 1, 0)
        ),
    }
