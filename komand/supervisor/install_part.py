"""`python -m komand.supervisor.install_part NAME COMMAND…`: runs a part of the installation and prints a line about it.

On a terminal, the line shows the seconds and the last output while the command runs. If it fails, its output follows.
It runs by the Python of the system, before any package is installed.
"""

import selectors
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import IO

from komand.supervisor.console import Screen

_REFRESH_SECONDS = 1.0
_READ_BYTES = 65_536


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    name, *command = arguments
    begun = time.monotonic()
    pipe, errors = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(command, stdout=pipe, stderr=errors) as process:  # noqa: S603 - of the Makefile
        assert process.stdout  # noqa: S101 - for the type checker
        output = _follow(name, process.stdout, begun)
    screen = Screen()
    if process.returncode:
        screen.fail(f"{name} failed ({process.returncode}):\n{output}")
    else:
        screen.tick(name, time.monotonic() - begun)
    screen.close()
    return process.returncode


def _follow(name: str, source: IO[bytes], begun: float) -> str:
    """Return the whole output. Meanwhile, show the part: every second on a terminal, else once."""
    is_terminal = sys.stdout.isatty()
    if not is_terminal:
        _show(f"  … {name}\n")
    output = b""
    with selectors.DefaultSelector() as ready:
        ready.register(source, selectors.EVENT_READ)
        while True:
            if is_terminal:
                _show(f"\r\033[K{_progress(name, time.monotonic() - begun, output)}")
            if ready.select(_REFRESH_SECONDS):
                piece = source.read1(_READ_BYTES)  # type: ignore[attr-defined]  # of a buffered reader
                if not piece:
                    break
                output += piece
    if is_terminal:
        _show("\r\033[K")
    return output.decode(errors="replace")


def _show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _progress(name: str, seconds: float, output: bytes) -> str:
    lines = output[-_READ_BYTES:].decode(errors="replace").split("\n")
    last = next((" ".join(line.split()) for line in reversed(lines) if line.strip()), "")
    line = f"  … {name:<10}{seconds:6.0f} s  {last}"
    return line[: shutil.get_terminal_size().columns - 1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
