"""Program of the process that `python_process` starts: isolates itself, tests the isolation, runs the code.

Its arguments are those of `main`. Writes a report of what the kernel denies before the code runs; if something is not
denied, runs the code only if the operator allows that. An audit hook gives clear errors early; a determined program can
remove it, so nothing depends on it where the kernel denies.
"""

import os
import resource
import sys
from collections.abc import Callable

from tools_app.sandbox.isolation import isolate
from tools_app.sandbox.self_test import READABLE, Targets, attempt_all

_REFUSED = """
    socket. subprocess. os.exec os.fork os.posix_spawn os.spawn os.startfile os.system pty. ctypes. os.kill
    signal.pthread_kill mmap.
"""
_SHARED = """
    /lib /lib64 /usr/lib /usr/lib64 /usr/local/lib /etc/ld.so.cache /usr/share/zoneinfo /dev/null /dev/urandom
"""
_TOUCHING = ("open", "os.", "shutil.", "glob.")


def main(folder: str, report: str, parent: str, isolation: str, room: str, *most: str) -> None:
    """Run the code in `folder`/code.py.

    folder: the working directory, whose parent is for the self-test.
    report: the descriptor to write to.
    parent: the id of the process to end with.
    isolation: `required`, or the code runs without.
    room: as of `isolate`.
    most: seconds of CPU, bytes of memory, bytes of one file, files open at a time.
    """
    cpu, memory, file, files = map(int, most)
    with open("code.py", "rb") as code:
        source = code.read()
    os.unlink("code.py")
    targets = Targets(os.path.dirname(folder), int(parent))
    readable = (*_places_of_python(), targets.path(READABLE))
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: cpu,
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_FSIZE: file,
        resource.RLIMIT_NOFILE: files,
        resource.RLIMIT_NPROC: 0,  # no further process, no thread
    }
    granted = isolate(readable, folder, int(parent), limits.items(), room)
    succeeded = attempt_all(targets)
    targets.close()
    os.write(int(report), repr((succeeded, granted)).encode())
    os.close(int(report))
    if any(succeeded.values()) and isolation == "required":
        sys.exit(1)
    _run(source, _hook((*readable, folder), guards_files=bool(succeeded["files"])))


def _run(source: bytes, hook: Callable[[str, tuple[object, ...]], None]) -> None:
    """Run the code as the main module of a program without arguments."""
    sys.argv = ["-"]
    module = sys.modules["__main__"] = type(sys)("__main__")
    try:
        code = compile(source, "<code>", "exec")
    except (SyntaxError, ValueError) as error:
        sys.excepthook(type(error), error.with_traceback(None), None)
        sys.exit(1)
    sys.addaudithook(hook)
    try:
        exec(code, module.__dict__)  # noqa: S102 - the purpose of this process
    except Exception as error:
        trace = error.__traceback__ and error.__traceback__.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        sys.exit(1)


def _places_of_python() -> tuple[str, ...]:
    """Return the paths that the standard library reads: itself, shared libraries, time zone data."""
    places = {os.path.realpath(place) for place in (*sys.path, os.path.dirname(os.__file__), *_SHARED.split())}
    return tuple(sorted(place for place in places if os.path.exists(place)))


def _hook(places: tuple[str, ...], *, guards_files: bool) -> Callable[[str, tuple[object, ...]], None]:
    """Return an audit hook that refuses network and programs; with `guards_files`, also files outside of `places`.

    Its data is local to it. That is still no barrier: the code may find the function and change it.
    """
    inside = (*places, *(f"{place}/" for place in places))
    folders = tuple(place for place in inside if place.endswith("/"))
    real, names, refused, touching = os.path.realpath, os.fsdecode, tuple(_REFUSED.split()), _TOUCHING

    def refuse(event: str, arguments: tuple[object, ...]) -> None:
        if event.startswith(refused):
            raise PermissionError(f"{event} is not allowed here")
        if guards_files and event.startswith(touching) and arguments and isinstance(arguments[0], str | bytes):
            path = real(names(arguments[0]))
            if path not in inside and not path.startswith(folders):
                raise PermissionError("files outside of the working folder cannot be reached")

    return refuse
