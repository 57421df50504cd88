"""Console output: a tick for each started part, prefixed log lines, and one block when everything runs.

A thread of its own writes, so a blocked terminal never blocks the supervisor; lines that do not fit are dropped.
"""

import queue
import sys
import threading
from contextlib import suppress
from typing import TextIO

_COLOURS = {"green": "32", "red": "31", "yellow": "33", "grey": "90", "bold": "1"}
_NAME_COLOURS = ("36", "35", "34", "33", "32")
_NAME_WIDTH = 8
_KEPT_LINES = 5000


class Screen:
    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self.is_terminal = self._coloured = self._out.isatty()
        self._lines: queue.Queue[str | None] = queue.Queue(_KEPT_LINES)
        self._dropped = 0
        self._names: list[str] = []
        self._writer = threading.Thread(target=self._write, name="screen", daemon=True)
        self._writer.start()

    def paint(self, text: str, colour: str) -> str:
        return f"\033[{_COLOURS[colour]}m{text}\033[0m" if self._coloured and text else text

    def print(self, text: str = "") -> None:
        try:
            self._lines.put_nowait(text)
        except queue.Full:
            self._dropped += 1

    def tick(self, name: str, seconds: float, note: str = "") -> None:
        """Print that a part is done: `✓ migrate  1.2 s`."""
        self.print(f"  {self.paint('✓', 'green')} {name:<10}{seconds:6.1f} s  {self.paint(note, 'grey')}".rstrip())

    def fail(self, problem: str) -> None:
        self.print(f"  {self.paint('✗', 'red')} {problem}")

    def line(self, name: str, text: str) -> None:
        """Print a log line of a process, prefixed with its name."""
        if name not in self._names:
            self._names.append(name)
        prefix = f"{name:<{_NAME_WIDTH}}"
        if self._coloured:
            colour = _NAME_COLOURS[self._names.index(name) % len(_NAME_COLOURS)]
            prefix = f"\033[{colour}m{prefix}\033[0m"
        self.print(f"{prefix} │ {text}")

    def close(self) -> None:
        """Write what is left, within a short time limit."""
        with suppress(queue.Full):
            self._lines.put_nowait(None)
        self._writer.join(0.5)

    def _write(self) -> None:
        while (text := self._lines.get()) is not None:
            if self._dropped:
                text, self._dropped = f"({self._dropped} lines were dropped)\n{text}", 0
            try:
                self._out.write(text + "\n")
                if self._lines.empty():
                    self._out.flush()
            except (OSError, ValueError):  # the terminal or the reader is gone: go on without
                continue
