"""Collapsing of long text: a card shows its beginning, and the rest on demand. Pure."""

import json
from dataclasses import dataclass
from typing import Any

from audit_app.kernel.redact import masked
from audit_app.kernel.shorten import shorten
from tools_app.types.executions import parsed_output

_LONGEST_TEXT = 4_000  # the limit of events, so that a card shows the same live and after a reload
_LINES_SHOWN = 12
_CHARACTERS_SHOWN = 900


@dataclass(frozen=True)
class Folded:
    """A collapsed text: the page shows `head` and, on demand, `rest`."""

    head: str = ""
    rest: str = ""

    @property
    def lines_more(self) -> int:
        return self.rest.count("\n") + 1


def pretty(value: Any) -> Folded:
    """Return a JSON value, or text that may be JSON, masked, indented, shortened and collapsed."""
    if isinstance(value, str):
        value = parsed_output(value)
    value = masked(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    return folded(shorten(text, _LONGEST_TEXT))


def folded(text: str) -> Folded:
    """Return the text split into the part shown and the rest."""
    lines = text.split("\n")
    head, rest = "\n".join(lines[:_LINES_SHOWN]), "\n".join(lines[_LINES_SHOWN:])
    if len(head) > _CHARACTERS_SHOWN:
        return Folded(text[:_CHARACTERS_SHOWN], text[_CHARACTERS_SHOWN:])
    return Folded(head, rest)
