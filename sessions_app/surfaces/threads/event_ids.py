"""Positions in a thread's stream of events, and the entry ids that hold them. Pure.

An entry id is the `id` of a server-sent event (HTML standard, section 9.2). It looks like one of Redis,
`<message>-<position>`; both numbers only rise. It is built from the position of an event, not counted, so a client
resumes behind it however the text was cut into pieces on its first connection. Within a text it also holds a checksum
of the text before it: a text that began again after a crash is continued where it is the same, and restarted where it
differs.
"""

import re
from dataclasses import dataclass
from zlib import crc32

BEGIN, REASONING, REASONING_END, TEXT, TEXT_END, CALLS, END = range(7)
LAST_STEP = (1 << 14) - 1  # of the events that end a message

_ID = re.compile(r"(?P<message>[0-9]{1,12})-(?P<position>[0-9]{1,19})", re.ASCII)
_STEP, _ZONE, _OFFSET = 49, 46, 22
_MOST_OFFSET = (1 << (_ZONE - _OFFSET)) - 1
_MOST_CHECK = (1 << _OFFSET) - 1


@dataclass(frozen=True, order=True)
class EventPosition:
    """The position of an event.

    message: number of the message in its thread, from 1.
    zone: part of the step; parts are sent in this order.
    offset: number of characters of a text, or a count.
    check: `checksum` of the text up to there.
    """

    message: int
    step: int = 0
    zone: int = BEGIN
    offset: int = 0
    check: int = 0

    def __str__(self) -> str:
        step, offset = min(self.step, LAST_STEP), min(self.offset, _MOST_OFFSET)
        return f"{self.message}-{step << _STEP | self.zone << _ZONE | offset << _OFFSET | self.check}"


def parse_position(entry_id: str) -> EventPosition | None:
    """Return the position that an entry id holds; None if it is not one of ours."""
    match = _ID.fullmatch(entry_id)
    if match is None:
        return None
    message, number = int(match["message"]), int(match["position"])
    step, zone = number >> _STEP, number >> _ZONE & 7
    if not message or step > LAST_STEP or zone > END:
        return None
    return EventPosition(message, step, zone, number >> _OFFSET & _MOST_OFFSET, number & _MOST_CHECK)


def running_checksum(text: str, before: int = 0) -> int:
    """Return the checksum of a text that is read in pieces. before: that of the earlier pieces."""
    return crc32(text.encode("utf-8", "surrogatepass"), before)


def checksum(running: int) -> int:
    """Return the bits of a running checksum that a position holds."""
    return running & _MOST_CHECK
