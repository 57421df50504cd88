"""The change that a call would make to a text, as a diff for the approver. Pure."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from audit_app.kernel.shorten import shorten
from tools_app.types import Change

# Common argument names for a text and its replacement.
_PAIRS = (
    ("before", "after"),
    ("old", "new"),
    ("old_text", "new_text"),
    ("old_string", "new_string"),
    ("old_content", "new_content"),
)
_NAMES = ("path", "file", "filename", "file_path", "name")
# difflib takes quadratic time.
_MOST_LINES = 1_000
_LONGEST_LINE = 500
_CONTEXT_LINES = 3


@dataclass(frozen=True)
class DiffLine:
    """A line of a diff. kind: same | added | removed | skipped (unchanged lines, or more than can be shown)."""

    kind: str
    text: str = ""


def find_change(arguments: Mapping[str, Any]) -> Change | None:
    """Return the change that the arguments of a call contain, if they have both texts."""
    for pair in _PAIRS:
        before, after = (arguments.get(name) for name in pair)
        if isinstance(before, str) and isinstance(after, str):
            names = (arguments.get(name) for name in _NAMES)
            return Change(before, after, next((name for name in names if isinstance(name, str)), ""))
    return None


def diff(change: Change) -> tuple[DiffLine, ...]:
    """Return the lines that are removed and added, with some context. Empty if nothing changes."""
    if change.before == change.after:
        return ()
    before, after = change.before.splitlines(), change.after.splitlines()
    is_cut = max(len(before), len(after)) > _MOST_LINES
    lines = list(_compare(before[:_MOST_LINES], after[:_MOST_LINES]))
    return (*lines, DiffLine("skipped")) if is_cut else tuple(lines)


def _compare(before: list[str], after: list[str]) -> Iterator[DiffLine]:
    matcher = difflib.SequenceMatcher(None, before, after)
    shown = 0  # number of old lines handled
    for group in matcher.get_grouped_opcodes(_CONTEXT_LINES):
        if group[0][1] > shown:
            yield DiffLine("skipped")
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                yield from (DiffLine("same", shorten(line, _LONGEST_LINE)) for line in before[old_start:old_end])
                continue
            yield from (DiffLine("removed", shorten(line, _LONGEST_LINE)) for line in before[old_start:old_end])
            yield from (DiffLine("added", shorten(line, _LONGEST_LINE)) for line in after[new_start:new_end])
        shown = group[-1][2]
    if shown < len(before):
        yield DiffLine("skipped")
