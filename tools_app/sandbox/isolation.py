"""Isolation of the process that runs the code of the `python` tool: namespaces, Landlock, user, system calls.

Each layer is used where the kernel has it. `self_test` finds out what they hold together. The modules of this process
import little, because every call waits for that.
"""

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Iterable

from tools_app.sandbox import system_calls

_CLONE_NEWUSER, _CLONE_NEWNET, _CLONE_NEWIPC, _CLONE_NEWPID = 0x10000000, 0x40000000, 0x8000000, 0x20000000
_CLONE_NEWNS = 0x20000
_MS_PRIVATE, _MS_OF_TMPFS = 1 << 18 | 1 << 14, 0b1110  # with all mounts below; nosuid, nodev, noexec
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_CAPABILITIES_VERSION = 0x20080522
_NOBODY = 65534
# System calls with these numbers on every architecture.
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_LANDLOCK_VERSION, _PATH_BENEATH = 1, 1
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
# Write, remove, make, link and rename, truncate.
_USE = _READ_FILE | _READ_FOLDER | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 13 | 1 << 14
# The access rights to files by the ABI that brought them, all of which are refused unless a rule grants them.
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_TCP_FROM, _TCP = 4, 0b11  # bind, connect
_SCOPES_FROM, _SCOPES = 6, 0b11  # abstract sockets, signals


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32)]


def isolate(
    readable: tuple[str, ...], folder: str, parent: int, limits: Iterable[tuple[int, int]], room: str
) -> dict[str, int]:
    """Drop privileges permanently and return in the process that is isolated; it ends with the process `parent`.

    readable: paths that may be read.
    folder: may be used; it is the working directory.
    limits: resource and its value.
    room: size of the folder, as options of tmpfs; holds where the kernel has namespaces.

    Return what the kernel granted: `seccomp`, `landlock` (its ABI) and `namespaces`, 0 for what it did not. The caller
    is forked where the kernel has process namespaces; then the original waits here for the fork and ends as it does.
    """
    if sys.platform != "linux":
        _limit(limits)
        return dict.fromkeys(("seccomp", "landlock", "namespaces"), 0)
    libc = ctypes.CDLL(None, use_errno=True)
    # Root is exempt from limits, so it becomes `nobody`, unless `nobody` cannot read Python's files: then it stays root
    # in a user namespace without privileges outside of it.
    becomes_nobody = os.getuid() == 0 and all(map(_is_for_all, readable))
    user = os.getuid(), os.getgid()
    namespaces = _unshare(libc, keeps_user=becomes_nobody)
    if namespaces:
        if user == (os.getuid(), os.getgid()):  # users without a name in the namespace could not use it
            _mount_in_memory(libc, folder, room)
        _die_with(libc, parent)
        alive = _fork()
    landlock = _restrict_files(libc, readable, folder)
    if becomes_nobody:
        os.chown(folder, _NOBODY, _NOBODY)
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    if namespaces:
        _die_with_original(libc, alive)
    else:
        _die_with(libc, parent)
    _drop_capabilities(libc)
    _limit(limits)
    return {"seccomp": int(system_calls.restrict(libc)), "landlock": landlock, "namespaces": int(namespaces)}


def _limit(limits: Iterable[tuple[int, int]]) -> None:
    for limit, value in limits:
        resource.setrlimit(limit, (value, value))


def _is_for_all(place: str) -> bool:
    """Return whether every user of the machine may read the path."""
    while place != os.path.dirname(place):
        if not os.stat(place).st_mode & (0o001 if os.path.isdir(place) else 0o004):
            return False
        place = os.path.dirname(place)
    return True


def _unshare(libc: ctypes.CDLL, *, keeps_user: bool) -> bool:
    """Enter namespaces: no network, not even loopback, own mounts, and for the next fork no other process."""
    spaces = _CLONE_NEWNET | _CLONE_NEWIPC | _CLONE_NEWPID | _CLONE_NEWNS
    if keeps_user and libc.unshare(spaces) == 0:
        return True
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_CLONE_NEWUSER | spaces) != 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        try:
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
        except OSError:  # then it belongs to no user of the namespace, which is enough
            break
    return True


def _mount_in_memory(libc: ctypes.CDLL, folder: str, room: str) -> None:
    """Let the folder be one in memory, which is gone with the namespace. Does nothing where the kernel refuses."""
    if libc.mount(None, b"/", None, _MS_PRIVATE, None) == 0:
        options = ctypes.c_char_p(f"{room},mode=700".encode())
        if libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", _MS_OF_TMPFS, options) == 0:
            os.chdir(folder)


def _fork() -> int:
    """Continue in a fork. Return a pipe's end that is closed when the original has ended."""
    alive, mine = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(mine)
        return alive
    os.close(alive)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


def _die_with(libc: ctypes.CDLL, parent: int) -> None:
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the line above
        os._exit(1)


def _die_with_original(libc: ctypes.CDLL, alive: int) -> None:
    """Tie this process to the original, whose id means nothing in this namespace. alive: the pipe's end."""
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.set_blocking(alive, False)
    try:
        os.read(alive, 1)
    except BlockingIOError:
        os.close(alive)
        return
    os._exit(1)


def _restrict_files(libc: ctypes.CDLL, readable: tuple[str, ...], folder: str) -> int:
    """Restrict access by Landlock to Python's own files (read) and the folder (use), and signals and abstract sockets
    to this process, as far as the kernel's ABI goes. Return that ABI; 0 if nothing is restricted."""
    version: int = max(0, libc.syscall(_LANDLOCK_CREATE, None, 0, _LANDLOCK_VERSION))
    handled = sum(rights for since, rights in _FILE_RIGHTS.items() if version >= since)
    scopes = (_TCP * (version >= _TCP_FROM), _SCOPES * (version >= _SCOPES_FROM))
    attributes = (ctypes.c_uint64 * 3)(handled, *scopes)
    rules = libc.syscall(_LANDLOCK_CREATE, ctypes.byref(attributes), ctypes.sizeof(attributes), 0) if version else -1
    if rules < 0:
        return 0
    for place in (*readable, folder):
        access = _USE if place == folder else _READ_FILE | _READ_FOLDER if os.path.isdir(place) else _READ_FILE
        if not _permit(libc, rules, place, access & handled):
            return 0
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    restricted = libc.syscall(_LANDLOCK_RESTRICT, rules, 0) == 0
    os.close(rules)
    return version if restricted else 0


def _permit(libc: ctypes.CDLL, rules: int, place: str, access: int) -> bool:
    beneath = _PathBeneath(access, os.open(place, os.O_PATH | os.O_CLOEXEC))
    added: int = libc.syscall(_LANDLOCK_ADD, rules, _PATH_BENEATH, ctypes.byref(beneath), 0)
    os.close(beneath.parent_fd)
    return added >= 0


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """Drop all capabilities, which a new user namespace grants within itself."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0)
    libc.capset(header, (ctypes.c_uint32 * 6)())
