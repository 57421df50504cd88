"""Places in a thread's stream of events, and the entry ids that name them. Pure.

An entry id reads like one of Redis, `<message>-<place>`, and both numbers only rise. It is made of where an event
stands, not counted: whoever comes back with it is told the rest, whatever pieces the text was cut into the first time.
Within a text the place also holds a checksum of the text before it, so that text which began anew after a crash is
recognised: it goes on where it says the same, and is told again where it does not.
"""

import re
from dataclasses import dataclass
from zlib import crc32

BEGIN, REASONING, REASONING_END, TEXT, TEXT_END, CALLS, END = range(7)
LAST_STEP = (1 << 14) - 1  # the place of what ends a message

_ID = re.compile(r"(?P<message>[0-9]{1,12})-(?P<place>[0-9]{1,19})", re.ASCII)
_STEP, _ZONE, _OFFSET = 49, 46, 22
_MOST_OFFSET = (1 << (_ZONE - _OFFSET)) - 1
_MOST_CHECK = (1 << _OFFSET) - 1


@dataclass(frozen=True, order=True)
class EventPosition:
    """message: the number of the message in its thread, from 1; zone: a part of a step, in the order they come in;
    offset: characters of a text, or a count; check: `checksum` of the text up to there."""

    message: int
    step: int = 0
    zone: int = BEGIN
    offset: int = 0
    check: int = 0

    def __str__(self) -> str:
        step, offset = min(self.step, LAST_STEP), min(self.offset, _MOST_OFFSET)
        return f"{self.message}-{step << _STEP | self.zone << _ZONE | offset << _OFFSET | self.check}"


def parse_place(entry_id: str) -> EventPosition | None:
    """The place that an entry id names; None when it is not one of ours."""
    match = _ID.fullmatch(entry_id)
    if match is None:
        return None
    message, number = int(match["message"]), int(match["place"])
    step, zone = number >> _STEP, number >> _ZONE & 7
    if not message or step > LAST_STEP or zone > END:
        return None
    return EventPosition(message, step, zone, number >> _OFFSET & _MOST_OFFSET, number & _MOST_CHECK)


def running_checksum(text: str, before: int = 0) -> int:
    """Of a text that is read in pieces: `before` is that of the pieces until now."""
    return crc32(text.encode("utf-8", "surrogatepass"), before)


def checksum(running: int) -> int:
    """As far as a place holds it."""
    return running & _MOST_CHECK
