"""Plain text for untrusted content, in which no character is invisible, and formats of numbers and times. Pure."""

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from audit_app.kernel.json_text import as_json
from audit_app.kernel.shorten import shorten

# Characters that change how a line looks without being seen: controls (but tab and line break), direction marks and
# overrides, zero-width spaces, tags. Joiners belong to many scripts: they are spelled out only after an ASCII letter.
_INVISIBLE = re.compile(
    "\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
    "|(?<![^\x00-\x7f])[\u200c\u200d]"
)


def visible(text: object) -> str:
    """Return the text with every invisible or direction-changing character spelled out, `\\u202e` for instance."""
    return _INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", str(text))


def clipped(text: str, length: int) -> str:
    """Return the beginning of a text, followed by the number of characters left out."""
    if len(text) <= length:
        return text
    return f"{text[:length]}… ({len(text) - length:,} more characters)"


def pretty_json(value: Any) -> str:
    """Return a JSON value on indented lines. JSON given as text is parsed first; other text stays as it is."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return visible(value)
    if isinstance(value, str):
        return visible(value)
    return visible(json.dumps(value, ensure_ascii=False, indent=2))


def summary(values: Mapping[str, Any], length: int = 140) -> str:
    """Return a JSON object on one short line. Ids are shown only if there is nothing else."""
    given = {name: value for name, value in values.items() if value not in ("", None)}
    readable = {name: value for name, value in given.items() if not name.endswith("_id")}
    parts = (
        f"{name}: {value if isinstance(value, str) else as_json(value)}" for name, value in (readable or given).items()
    )
    return shorten(visible(", ".join(parts)), length)


def number(value: int) -> str:
    """Return a whole number with commas."""
    return f"{value:,}"


def duration(seconds: float | None) -> str:
    """Return a length of time in a suitable unit: 8 ms, 3.2 s, 4 min 10 s, 2 h 5 min."""
    if seconds is None:
        return "–"
    if seconds < 0.9995:
        return f"{round(seconds * 1000)} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def took(start: datetime | None, end: datetime | None) -> str:
    """Return the time from start to end; a dash while either is missing."""
    return duration((end - start) / timedelta(seconds=1)) if start and end else "–"
