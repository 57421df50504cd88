"""The log of an installation: a line that reports a problem fails the scenario that does not expect it."""

import re
from dataclasses import dataclass, field

from tests.installed.installation import Installation

_LINE = re.compile(r"\d\d:\d\d:\d\d\.\d{3} (?P<level>[A-Z]+) +(?P<text>.*)$")
_LEVELS = ("WARNING", "ERROR", "CRITICAL")
_TRACEBACK = "Traceback (most recent call last)"


@dataclass
class LogReader:
    """Reads what the installation has logged since it was last read.

    expected: templates of lines that a scenario expects, `logger: message` with %s for what differs.
    """

    installation: Installation
    expected: set[str] = field(default_factory=set)
    _expected_before: set[str] = field(default_factory=set)
    _read: int = 0

    def begin(self) -> None:
        """Begin a scenario. What the one before expected is still let through: its last lines may come late."""
        self._expected_before, self.expected = self.expected, set()

    def expect(self, template: str, reason: str) -> None:
        """Let lines of this template be logged until the end of the scenario. reason: of the reader of the test."""
        assert reason
        self.expected.add(template)

    def problems(self) -> list[str]:
        """Return the lines of level WARNING or above, and tracebacks, that nobody expects."""
        text = self.installation.read_log()
        whole = text.rfind("\n") + 1
        new, self._read = text[self._read : whole], max(whole, self._read)
        found, is_expected = [], False
        for line in new.splitlines():
            if entry := _LINE.search(line):
                is_expected = any(
                    _matches(template, entry["text"]) for template in self.expected | self._expected_before
                )
            is_problem = entry["level"] in _LEVELS if entry else _TRACEBACK in line  # of the entry above it
            found += [line] if is_problem and not is_expected else []
        return found


def _matches(template: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, template.split("%s"))), text) is not None
