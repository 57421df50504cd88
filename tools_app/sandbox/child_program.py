"""Runs Python code under limits: a script that `python_process` starts in a process of its own, never imported.

Its argument is the limits as JSON. Uses the kernel's isolation where available (namespaces, Landlock, seccomp);
elsewhere an audit hook replaces it, which a determined program can bypass. Reports which isolation is active before the
code runs.
"""

import ctypes
import json
import os
import resource
import signal
import sys
import traceback
from typing import Any

_CLONE_NEWUSER, _CLONE_NEWNET, _CLONE_NEWIPC = 0x10000000, 0x40000000, 0x8000000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_NOBODY = 65534
_PR_SET_SECCOMP, _SECCOMP_FILTER = 22, 2
_LOAD, _IS, _IS_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # BPF instructions
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001  # with EPERM
_OTHER_NUMBERS = 0x40000000  # system calls of the x32 ABI
# The AUDIT_ARCH of each architecture, and its numbers of clone, clone3, fork, vfork, execve, execveat, memfd_create,
# ptrace, setsid and io_uring_setup.
_CALLS = {
    "x86_64": (0xC000003E, (56, 435, 57, 58, 59, 322, 319, 101, 112, 425)),
    "aarch64": (0xC00000B7, (220, 435, 221, 281, 279, 117, 157, 425)),
}
# System calls with these numbers on every architecture.
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_PATH_BENEATH = 1
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
_HANDLED = (1 << 13) - 1  # all access rights of Landlock's first ABI
_USE = _READ_FILE | _READ_FOLDER | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 12  # and write, remove, make
_REFUSED = """
    socket. subprocess. os.exec os.fork os.posix_spawn os.spawn os.startfile os.system pty. ctypes. os.kill
    signal.pthread_kill mmap.
"""
_SHARED = """
    /lib /lib64 /usr/lib /usr/lib64 /usr/local/lib /etc/ld.so.cache /usr/share/zoneinfo /dev/null /dev/urandom
"""
_TOUCHING = ("open", "os.", "shutil.", "glob.")


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32)]


class _Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("value", ctypes.c_uint32)]


class _Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction))]


def main() -> None:
    given = json.loads(sys.argv[1])
    with open(given["code"], "rb") as file:
        source = file.read()
    os.unlink(given["code"])
    readable = _places_of_python()
    held = _leave(given["folder"], readable, given["parent"])
    _limit(given)
    os.write(given["held_write"], json.dumps(held).encode())
    os.close(given["held_write"])
    sys.argv = ["-"]
    try:
        code = compile(source, "<code>", "exec")
    except (SyntaxError, ValueError) as error:
        sys.stderr.write("".join(traceback.format_exception_only(error)))
        sys.exit(1)
    sys.addaudithook(_hook((*readable, given["folder"]), guards_files=not held["files"]))
    try:
        exec(code, {"__name__": "__main__"})  # noqa: S102 - the purpose of this process
    except Exception as error:
        traceback.print_exception(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next))
        sys.exit(1)


def _leave(folder: str, readable: tuple[str, ...], parent: int) -> dict[str, bool]:
    """Drop privileges permanently. Returns which isolation the kernel enforces."""
    libc = ctypes.CDLL(None, use_errno=True)
    # Root is exempt from limits, so it becomes `nobody`, unless `nobody` cannot read Python's files: then it stays root
    # in a user namespace without privileges outside of it.
    becomes_nobody = os.getuid() == 0 and all(map(_is_for_all, readable))
    if becomes_nobody:
        os.chown(folder, _NOBODY, _NOBODY)
    held = {"network": _leave_network(libc, keeps_user=becomes_nobody), "files": _leave_files(libc, readable, folder)}
    if becomes_nobody:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # ends with its worker
    if os.getppid() != parent:
        os._exit(1)
    return {**held, "programs": _leave_programs(libc)}


def _is_for_all(place: str) -> bool:
    """Return whether every user of the machine may read the path."""
    while place != os.path.dirname(place):
        if not os.stat(place).st_mode & (0o001 if os.path.isdir(place) else 0o004):
            return False
        place = os.path.dirname(place)
    return True


def _leave_network(libc: Any, *, keeps_user: bool) -> bool:
    """Enter an empty network namespace, even without loopback. Returns whether it succeeded."""
    if keeps_user and libc.unshare(_CLONE_NEWNET | _CLONE_NEWIPC) == 0:
        return True
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWIPC) != 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    return True


def _leave_files(libc: Any, readable: tuple[str, ...], folder: str) -> bool:
    """Restrict access by Landlock to Python's own files (read) and the folder (use). Returns whether it succeeded."""
    handled = ctypes.c_uint64(_HANDLED)
    rules = libc.syscall(_LANDLOCK_CREATE, ctypes.byref(handled), ctypes.sizeof(handled), 0)
    if rules < 0:
        return False
    for place in (*readable, folder):
        access = _USE if place == folder else _READ_FILE | _READ_FOLDER if os.path.isdir(place) else _READ_FILE
        beneath = _PathBeneath(access, os.open(place, os.O_PATH | os.O_CLOEXEC))
        added = libc.syscall(_LANDLOCK_ADD, rules, _PATH_BENEATH, ctypes.byref(beneath), 0)
        os.close(beneath.parent_fd)
        if added < 0:
            return False
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return bool(libc.syscall(_LANDLOCK_RESTRICT, rules, 0) == 0)


def _leave_programs(libc: Any) -> bool:
    """Forbid new processes, threads and programs by seccomp, because limits do not apply to root in its namespace.

    Returns whether it succeeded.
    """
    known = _CALLS.get(os.uname().machine)
    if known is None:
        return False
    architecture, refused = known
    steps = [(_LOAD, 0, 0, 4), (_IS, 1, 0, architecture), (_RETURN, 0, 0, _REFUSE), (_LOAD, 0, 0, 0)]
    left = len(refused)
    steps.append((_IS_AT_LEAST, left + 1, 0, _OTHER_NUMBERS))
    steps += [(_IS, left - index, 0, number) for index, number in enumerate(refused)]
    steps += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]
    program = (_Instruction * len(steps))(*(_Instruction(*step) for step in steps))
    whole = _Filter(len(steps), program)
    return bool(libc.prctl(_PR_SET_SECCOMP, _SECCOMP_FILTER, ctypes.byref(whole), 0, 0) == 0)


def _limit(given: dict[str, int]) -> None:
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, given["cpu_seconds"]),
        (resource.RLIMIT_AS, given["memory_bytes"]),
        (resource.RLIMIT_FSIZE, given["file_bytes"]),
        (resource.RLIMIT_NOFILE, given["files"]),
        (resource.RLIMIT_NPROC, 0),  # no further process, no thread
    ):
        resource.setrlimit(limit, (value, value))


def _places_of_python() -> tuple[str, ...]:
    """Return the paths that the standard library reads: itself, shared libraries, time zone data."""
    places = {os.path.realpath(place) for place in (*sys.path, os.path.dirname(os.__file__), *_SHARED.split())}
    return tuple(sorted(place for place in places if os.path.exists(place)))


def _hook(places: tuple[str, ...], *, guards_files: bool) -> Any:
    """Return an audit hook that refuses network and programs; with `guards_files`, also files outside of `places`."""
    inside = (*places, *(f"{place}/" for place in places))
    real, names, refused = os.path.realpath, os.fsdecode, tuple(_REFUSED.split())

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event.startswith(refused):
            raise PermissionError(f"{event} is not allowed here")
        if guards_files and event.startswith(_TOUCHING) and arguments and isinstance(arguments[0], str | bytes):
            path = real(names(arguments[0]))
            if path not in inside and not path.startswith(tuple(place for place in inside if place.endswith("/"))):
                raise PermissionError("files outside of the working folder cannot be reached")

    return refuse


if __name__ == "__main__":
    main()
