"""The new text of a reply, without the quoted mail below it and the signature. Pure."""

import re

_SIGNATURE = re.compile(r"^-- ?$", re.MULTILINE)
# Lines after which programs put the whole earlier mail, unquoted.
_FORWARD = re.compile(r"^(?:-{3,} ?[^\n-]{3,60} ?-{3,}|_{20,})[ \t]*$", re.MULTILINE)
_QUOTE = re.compile(r"^[ \t]*>")
_LONGEST_LEAD = 3  # lines such as "On … wrote:", which programs wrap


def new_text(text: str) -> str:
    """Return the text that the person wrote. If nothing else is left, the whole text is returned."""
    lines = text.replace("\r\n", "\n").rstrip().split("\n")
    while lines and (_QUOTE.match(lines[-1]) or not lines[-1].strip()):
        lines.pop()
    if lines and lines[-1].rstrip().endswith(":") and len(lines) < len(text.rstrip().split("\n")):
        del lines[-_length_of_lead(lines) :]
    kept = "\n".join(lines)
    for pattern in (_FORWARD, _SIGNATURE):
        if found := pattern.search(kept):
            kept = kept[: found.start()]
    return kept.strip() or text.strip()


def _length_of_lead(lines: list[str]) -> int:
    """Return the number of lines of the last paragraph if it may be a wrapped "On … wrote:", else 1."""
    for length in range(1, _LONGEST_LEAD + 1):
        if length == len(lines) or not lines[-length - 1].strip():
            return length
    return 1
