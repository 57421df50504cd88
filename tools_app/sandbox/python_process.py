"""Runs Python code in a process group of its own, with little of everything: time, memory, files, output.

A fence against accidents and idle mischief, not a security boundary: the kernel is the same, and where it grants
neither namespaces nor Landlock, Python's own audit hook is all that holds the code.
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
    signal.SIGXCPU: "It used up its processor time.",
    signal.SIGXFSZ: "It wrote too large a file.",
    signal.SIGSEGV: "It crashed.",
    signal.SIGABRT: "It crashed.",
    signal.SIGKILL: "It used up its processor time or its memory.",
}


@dataclass(frozen=True)
class Ran:
    """What came of it. exit_code: None when it did not end by itself, for which `why` has the reason; held: what the
    kernel keeps from it, of `network`, `files` and `programs`; the rest is kept from it by Python alone."""

    stdout: str
    stderr: str
    exit_code: int | None
    why: str
    held: tuple[str, ...]


def run(code: str, *, seconds: float) -> Ran:
    """Run it to its end, or to that of its time or its room for output. Blocks; leaves no process and no file."""
    folder = tempfile.mkdtemp(prefix="komand-python-")
    told, tell = os.pipe()
    try:
        process = _start(folder, code, tell, seconds)
        try:
            output, why = _listen(process, time.monotonic() + seconds)
        finally:
            _kill(process)
        os.set_blocking(told, False)
        with suppress(BlockingIOError):
            return _ran(process.returncode, output, why, os.read(told, 1000))
        return _ran(process.returncode, output, why, b"")
    finally:
        os.close(told)
        os.close(tell)
        shutil.rmtree(folder, ignore_errors=True)


def _start(folder: str, code: str, tell: int, seconds: float) -> "subprocess.Popen[bytes]":
    source = Path(folder, "code.py")
    source.write_bytes(code.encode(errors="replace"))
    given = {
        "folder": os.path.realpath(folder),
        "code": str(source),
        "tell": tell,
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
        pass_fds=(tell,),
    )


def _listen(process: "subprocess.Popen[bytes]", deadline: float) -> tuple[dict[str, bytearray], str]:
    """What it prints, until it ends or has to be ended; then why."""
    output = {"stdout": bytearray(), "stderr": bytearray()}
    with selectors.DefaultSelector() as selector:
        for name in output:
            selector.register(getattr(process, name), selectors.EVENT_READ, output[name])
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return output, "Its time was over."
            for key, _ in selector.select(left):
                piece = os.read(key.fd, 65536)
                if not piece:
                    selector.unregister(key.fileobj)
                    continue
                key.data.extend(piece)
                if len(key.data) > MAX_OUTPUT_BYTES:
                    return output, "It printed too much."
    return output, _wait(process, deadline)


def _wait(process: "subprocess.Popen[bytes]", deadline: float) -> str:
    """It has closed its output; it need not have ended."""
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return "Its time was over."
    return ""


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """The whole group, however it ended: a signal that nothing can ignore."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe:
            pipe.close()


def _ran(code: int, output: dict[str, bytearray], why: str, told: bytes) -> Ran:
    held: dict[str, Any] = json.loads(told) if told else {}
    if code < 0 and not why:
        why = _ENDS.get(signal.Signals(-code), f"It was ended by signal {-code}.")
    stdout, stderr = (bytes(text[:MAX_OUTPUT_BYTES]).decode(errors="replace") for text in output.values())
    return Ran(stdout, stderr, None if why else code, why, tuple(name for name, is_held in held.items() if is_held))
