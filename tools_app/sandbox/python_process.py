"""Runs Python code in a process of its own, isolated by the kernel, with limits of time, memory, files and output.

The kernel is shared, so a fault of the kernel opens the isolation.
"""

import ast
import logging
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tools_app.sandbox import child_program

logger = logging.getLogger(__name__)

MAX_OUTPUT_BYTES = 64 * 1024

# The interpreter is isolated from packages (-I -S); only our own are added, until they are imported.
_PROGRAM = f"""
import sys
sys.path.insert(0, {str(Path(child_program.__file__).parents[2])!r})
from tools_app.sandbox import child_program
del sys.path[0]
child_program.main(*sys.argv[1:])
"""
_MEMORY_BYTES = 512 * 1024 * 1024
_FILE_BYTES = 16 * 1024 * 1024
_FILES = 32
# Of all files together; each counts as a block at least.
_ALL_FILES_BYTES, _BLOCK = 64 * 1024 * 1024, 4096
_ROOM = f"size={_ALL_FILES_BYTES},nr_inodes={_ALL_FILES_BYTES // _BLOCK}"
_LOOK_SECONDS = 0.1
_ENDS = {
    signal.SIGXCPU: "It exceeded its CPU time.",
    signal.SIGXFSZ: "It wrote a file that is too large.",
    signal.SIGSEGV: "It crashed.",
    signal.SIGABRT: "It crashed.",
    signal.SIGKILL: "It exceeded its CPU time or its memory.",
}


@dataclass(frozen=True)
class Ran:
    """Result of a run.

    exit_code: None if it was stopped; then `why` is the reason.
    held: which of `network`, `files`, `programs` and `processes` the kernel denies, as the self-test proved.
    """

    stdout: str
    stderr: str
    exit_code: int | None
    why: str
    held: tuple[str, ...]


@dataclass(frozen=True)
class Isolation:
    """Result of the self-test of one process.

    succeeded: for each restriction the attempts that succeeded.
    granted: parts of the kernel, 0 for what it lacks.
    """

    succeeded: dict[str, list[str]]
    granted: dict[str, int]

    @property
    def held(self) -> tuple[str, ...]:
        return tuple(name for name, attempts in self.succeeded.items() if not attempts)

    @property
    def lacks(self) -> str:
        """Return what is not held, with a proof, and which parts of the kernel are missing; empty if all is held."""
        possible = [f"{name} (it can {found[0]})" for name, found in self.succeeded.items() if found]
        missing = [name for name, value in self.granted.items() if not value]
        return f"not held: {'; '.join(possible)}; not granted: {', '.join(missing) or 'nothing'}" if possible else ""


class NotIsolated(Exception):
    """The kernel does not isolate the code, so it was not run. The message says what is missing."""


def examine() -> Isolation:
    """Return the isolation that the code of a call would have here. Blocks; raises NotIsolated if it is unknown."""
    isolation = _run("", 10.0, unisolated=True)[1]
    if isolation is None:
        raise NotIsolated("its self-test did not end in time")
    return isolation


def run(code: str, *, seconds: float, unisolated: bool = False) -> Ran:
    """Run the code until it ends or exceeds a limit. Blocks; leaves no process and no file.

    unisolated: run it also where the kernel does not isolate it. Otherwise raises NotIsolated there.
    """
    ran, isolation = _run(code, seconds, unisolated=unisolated)
    if isolation and isolation.lacks and not unisolated:
        raise NotIsolated(isolation.lacks)
    return ran


def _run(code: str, seconds: float, *, unisolated: bool) -> tuple[Ran, Isolation | None]:
    """Return the result, and the isolation; None for it if the time ended before the self-test, so without the code."""
    base = tempfile.mkdtemp(prefix="komand-python-")
    report_read, report_write = os.pipe()
    try:
        folder = Path(base, "work")
        process = _start(folder, code, report_write, seconds, unisolated=unisolated)
        try:
            output, why = _collect_output(process, folder, time.monotonic() + seconds)
        finally:
            _kill(process)
        os.set_blocking(report_read, False)
        report = b""
        with suppress(BlockingIOError):
            report = os.read(report_read, 4000)
        if not report and why:
            return _ran(process.returncode, output, why, ()), None
        if not report:
            error = output["stderr"].decode(errors="replace").strip().rpartition("\n")[2]
            raise NotIsolated(f"its process ended before the self-test: {error or process.returncode}")
        isolation = Isolation(*ast.literal_eval(report.decode()))
        return _ran(process.returncode, output, why, isolation.held), isolation
    finally:
        os.close(report_read)
        os.close(report_write)
        try:
            _remove(base)
        except OSError:
            logger.exception("the folder of a call of the python tool was not removed: %s", base)


def _start(
    folder: Path, code: str, report_write: int, seconds: float, *, unisolated: bool
) -> "subprocess.Popen[bytes]":
    folder.mkdir()
    (folder / "code.py").write_bytes(code.encode(errors="replace"))
    given = (os.path.realpath(folder), report_write, os.getpid(), "optional" if unisolated else "required")
    limits = (_ROOM, max(1, math.ceil(seconds)), _MEMORY_BYTES, _FILE_BYTES, _FILES)
    arguments = map(str, (*given, *limits))
    return subprocess.Popen(  # noqa: S603 - our own program; the code is in a file
        [sys.executable, "-I", "-S", "-B", "-c", _PROGRAM, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env={"LANG": "C.UTF-8"},
        start_new_session=True,
        pass_fds=(report_write,),
    )


def _collect_output(
    process: "subprocess.Popen[bytes]", folder: Path, deadline: float
) -> tuple[dict[str, bytearray], str]:
    """Return the output, and why the process has to be stopped; empty if it ended."""
    output = {"stdout": bytearray(), "stderr": bytearray()}
    with selectors.DefaultSelector() as selector:
        for name in output:
            selector.register(getattr(process, name), selectors.EVENT_READ, output[name])
        look = 0.0
        while (now := time.monotonic()) < deadline:
            if now >= look:
                look = now + _LOOK_SECONDS
                if not _has_room(folder):
                    return output, "It wrote too many files."
            left = min(look, deadline) - now
            if not selector.get_map() and _has_ended(process, left):
                return output, ""
            for key, _ in selector.select(left) if selector.get_map() else ():
                piece = os.read(key.fd, 65536)
                if not piece:
                    selector.unregister(key.fileobj)
                    continue
                key.data.extend(piece)
                if len(key.data) > MAX_OUTPUT_BYTES:
                    return output, "It printed too much output."
    return output, "It exceeded its time limit."


def _has_ended(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    """Wait for the end of a process that has closed its output."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process.returncode is not None


def _has_room(folder: Path) -> bool:
    """Return whether files in the folder are within their limit. False for folders that cannot be read or too deep."""
    total, folders = 0, [str(folder)]
    try:
        while folders and total <= _ALL_FILES_BYTES:
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    with suppress(FileNotFoundError):
                        total += max(_BLOCK, entry.stat(follow_symlinks=False).st_size)
    except OSError:
        return False
    return total <= _ALL_FILES_BYTES


def _remove(base: str) -> None:
    """Remove a folder. Each folder in it is moved to its top first: paths may be too long to be named."""
    folders, moved = [base], 0
    for folder in folders:
        os.chmod(folder, 0o700)
        for entry in list(os.scandir(folder)):
            if entry.is_dir(follow_symlinks=False):
                os.chmod(entry.path, 0o700)
                folders.append(os.path.join(base, f"\n{moved}"))
                os.rename(entry.path, folders[-1])
                moved += 1
            else:
                os.unlink(entry.path)
    for folder in reversed(folders):
        os.rmdir(folder)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe:
            pipe.close()


def _ran(code: int, output: dict[str, bytearray], why: str, held: tuple[str, ...]) -> Ran:
    if code < 0 and not why:
        why = _ENDS.get(signal.Signals(-code), f"It was ended by signal {-code}.")
    stdout, stderr = (bytes(text[:MAX_OUTPUT_BYTES]).decode(errors="replace") for text in output.values())
    return Ran(stdout, stderr, None if why else code, why, held)
