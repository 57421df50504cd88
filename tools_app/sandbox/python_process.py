"""Runs Python code in its own process group, with limits of time, memory, files and output.

Protects against accidents and casual misuse. It is not a security boundary: the kernel is shared, and where it grants
neither namespaces nor Landlock, only Python's audit hook restricts the code.
"""

import json
import math
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_OUTPUT_BYTES = 64 * 1024

_INSIDE = Path(__file__).with_name("child_program.py")
_MEMORY_BYTES = 512 * 1024 * 1024
_FILE_BYTES = 16 * 1024 * 1024
_FILES = 32
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
    held: which of `network`, `files` and `programs` the kernel denies; Python alone denies the others.
    """

    stdout: str
    stderr: str
    exit_code: int | None
    why: str
    held: tuple[str, ...]


def run(code: str, *, seconds: float) -> Ran:
    """Run the code until it ends or exceeds a limit. Blocks; leaves no process and no file."""
    folder = tempfile.mkdtemp(prefix="komand-python-")
    held_read, held_write = os.pipe()
    try:
        process = _start(folder, code, held_write, seconds)
        try:
            output, why = _collect_output(process, time.monotonic() + seconds)
        finally:
            _kill(process)
        os.set_blocking(held_read, False)
        with suppress(BlockingIOError):
            return _ran(process.returncode, output, why, os.read(held_read, 1000))
        return _ran(process.returncode, output, why, b"")
    finally:
        os.close(held_read)
        os.close(held_write)
        shutil.rmtree(folder, ignore_errors=True)


def _start(folder: str, code: str, held_write: int, seconds: float) -> "subprocess.Popen[bytes]":
    source = Path(folder, "code.py")
    source.write_bytes(code.encode(errors="replace"))
    given = {
        "folder": os.path.realpath(folder),
        "code": str(source),
        "held_write": held_write,
        "parent": os.getpid(),
        "cpu_seconds": max(1, math.ceil(seconds)),
        "memory_bytes": _MEMORY_BYTES,
        "file_bytes": _FILE_BYTES,
        "files": _FILES,
    }
    return subprocess.Popen(  # noqa: S603 - our own script; the code is in a file
        [sys.executable, "-I", "-S", "-B", str(_INSIDE), json.dumps(given)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env={"LANG": "C.UTF-8"},
        start_new_session=True,
        pass_fds=(held_write,),
    )


def _collect_output(process: "subprocess.Popen[bytes]", deadline: float) -> tuple[dict[str, bytearray], str]:
    """Return the output, and why the process has to be stopped; empty if it ended."""
    output = {"stdout": bytearray(), "stderr": bytearray()}
    with selectors.DefaultSelector() as selector:
        for name in output:
            selector.register(getattr(process, name), selectors.EVENT_READ, output[name])
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return output, "It exceeded its time limit."
            for key, _ in selector.select(left):
                piece = os.read(key.fd, 65536)
                if not piece:
                    selector.unregister(key.fileobj)
                    continue
                key.data.extend(piece)
                if len(key.data) > MAX_OUTPUT_BYTES:
                    return output, "It printed too much output."
    return output, _wait(process, deadline)


def _wait(process: "subprocess.Popen[bytes]", deadline: float) -> str:
    """Wait for the end of a process that has closed its output."""
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return "It exceeded its time limit."
    return ""


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe:
            pipe.close()


def _ran(code: int, output: dict[str, bytearray], why: str, held_json: bytes) -> Ran:
    held: dict[str, Any] = json.loads(held_json) if held_json else {}
    if code < 0 and not why:
        why = _ENDS.get(signal.Signals(-code), f"It was ended by signal {-code}.")
    stdout, stderr = (bytes(text[:MAX_OUTPUT_BYTES]).decode(errors="replace") for text in output.values())
    return Ran(stdout, stderr, None if why else code, why, tuple(name for name, is_held in held.items() if is_held))
