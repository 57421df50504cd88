"""What a `ts` says besides the time: which message of an event it is, and how much of the open text came with it. Pure.

A message that is stored has the millisecond of its event, which no other event of the session has. Clients come back
with the highest `ts` they saw, and with nothing else; so what has no millisecond of its own lies between two of them,
on a raster of 4096 steps, which a client's numbers keep exactly until the year 2039:

- what comes before an event's own message (the words before a tool call) lies just below the event's millisecond, and
  so does what passes by before the event that follows (the progress of a tool);
- a piece of live text lies above the last event's, at a place that tells where in the step's text the piece ends.
  Whoever comes back with it is sent the rest of the text, from that very letter on.
"""

import math
from dataclasses import dataclass

STEPS = 4096
MOST_BEFORE = 16  # messages of one event that come before its own
_EXACT, _BY_8 = 1023, 1535  # positions up to which each letter, each eighth letter has one; then each 64th
_BY_64 = 2038
_BEYOND = 2039  # the position of all text that is longer than can be told
_CLAIM = 2040  # added for every other claim of a run: what an earlier claim wrote is not what the next one writes


@dataclass(frozen=True)
class Mark:
    """How much of a step's text a client has. claim: 0 or 1; length: in code points, None for more than can be told."""

    claim: int
    length: int | None


def before(ts: int, count: int, index: int) -> float:
    """The `ts` of the one at `index` of `count` messages that come before the message of the event at `ts`."""
    return ts - (count - index) / STEPS


def of_text(ts: int, fence: int, position: int) -> float:
    """The `ts` of a piece of text that ends at this position, after the event at `ts`, in the claim of that number."""
    return ts + (position + (fence & 1) * _CLAIM) / STEPS if position else ts


def of_passing(ts: int, count: int) -> float:
    """The `ts` of what passes by after the event at `ts` and is not stored; count: of those since that event before it.

    Clients throw away what has a time that they know. There is room for some: the last of many have the same one.
    """
    return ts + (STEPS - MOST_BEFORE + min(count, MOST_BEFORE - 1)) / STEPS


def position_of(length: int) -> int:
    """The last position that lies within the first `length` letters."""
    if length <= _EXACT:
        return length
    if length <= length_at(_BY_8):
        return _EXACT + (length - _EXACT) // 8
    return min(_BY_8 + (length - length_at(_BY_8)) // 64, _BEYOND)


def length_at(position: int) -> int:
    """How many letters come before a position."""
    if position <= _EXACT:
        return position
    if position <= _BY_8:
        return _EXACT + (position - _EXACT) * 8
    return length_at(_BY_8) + (position - _BY_8) * 64


LONGEST = length_at(_BY_64)  # text of which a client can tell how much it has


def is_told(position: int) -> bool:
    """Whether a client that comes back from this position can be sent exactly the rest."""
    return position < _BEYOND


def read(ts: float) -> tuple[int, Mark | None]:
    """(the millisecond, the mark of a text if it has one) of a `ts` that a client gives back."""
    whole = math.floor(ts)
    code = round((ts - whole) * STEPS)
    if not 0 < code < STEPS - MOST_BEFORE:
        return whole, None
    claim, position = (1, code - _CLAIM) if code > _CLAIM else (0, code)
    return whole, Mark(claim, length_at(position) if is_told(position) else None)
