"""The log of an installation: a line that reports a problem fails the scenario that does not expect it."""

import re
from dataclasses import dataclass, field

from tests.installed.installation import Installation

_PROBLEM = re.compile(r"\d\d:\d\d:\d\d\.\d{3} (?:WARNING|ERROR|CRITICAL) +(?P<text>.*)$")
_TRACEBACK = "Traceback (most recent call last)"


@dataclass
class LogReader:
    """Reads what the installation has logged since it was last read.

    expected: templates of lines that a scenario expects, `logger: message` with %s for what differs.
    """

    installation: Installation
    expected: set[str] = field(default_factory=set)
    _read: int = 0

    def expect(self, template: str, reason: str) -> None:
        """Let lines of this template be logged until the end of the scenario. reason: of the reader of the test."""
        assert reason
        self.expected.add(template)

    def problems(self) -> list[str]:
        """Return the lines of level WARNING or above, and tracebacks, that nobody expects."""
        text = self.installation.read_log()
        whole = text.rfind("\n") + 1
        new, self._read = text[self._read : whole], max(whole, self._read)
        return [line for line in new.splitlines() if _is_problem(line) and not self._is_expected(line)]

    def _is_expected(self, line: str) -> bool:
        found = _PROBLEM.search(line)
        return found is not None and any(_matches(template, found["text"]) for template in self.expected)


def _is_problem(line: str) -> bool:
    return _PROBLEM.search(line) is not None or _TRACEBACK in line


def _matches(template: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, template.split("%s"))), text) is not None
