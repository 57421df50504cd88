"""The `ts` of messages, which also encodes the position from which a client resumes. Pure.

A stored message has the millisecond of its event, which no other event of the session has. Clients resume with the
highest `ts` that they received and send nothing else. Messages without a millisecond of their own therefore have a
fraction of one, in steps of 1/4096, which a double represents exactly until the year 2039:

- messages that precede the message of their event (the text before a tool call), and messages that are not stored
  (the progress of a tool), lie just below the millisecond of an event;
- a chunk of live text lies above the last event. Its fraction encodes the length of the step's text up to the end of
  the chunk: a client that resumes from it is sent the rest of the text.
"""

import math
from dataclasses import dataclass

STEPS = 4096
MOST_BEFORE = 16  # messages of one event that precede its own
_EXACT, _BY_8 = 1023, 1535  # last positions that advance by one character and by eight; the others advance by 64
_BY_64 = 2038
_BEYOND = 2039  # position of all text that is too long to encode
_CLAIM = 2040  # added for every other claim of a run: its text may differ from that of the claim before


@dataclass(frozen=True)
class ReceivedText:
    """The part of a step's text that a client has.

    claim: parity of the fence of the claim that wrote it.
    length: in code points, None if it is too long to encode.
    """

    claim: int
    length: int | None


def before(ts: int, count: int, index: int) -> float:
    """Return the `ts` of message `index` of the `count` messages that precede the message of the event at `ts`."""
    return ts - (count - index) / STEPS


def of_text(ts: float, fence: int, position: int) -> float:
    """Return the `ts` of a chunk that ends at this position, after the event at `ts`. fence: of the chunk's claim."""
    return ts + (position + (fence & 1) * _CLAIM) / STEPS if position else ts


def of_received(ts: int, received: ReceivedText) -> float:
    """Return the `ts` with which a client resumes that has this text, after the event at `ts`."""
    position = _BEYOND if received.length is None else position_of(received.length)
    return of_text(ts, received.claim, position)


def of_transient(ts: int, count: int) -> float:
    """Return the `ts` of a message that is not stored, after the event at `ts` and `count` other such messages.

    Clients drop messages whose `ts` they have seen. At most 16 distinct values fit; further messages share the last.
    """
    return ts + (STEPS - MOST_BEFORE + min(count, MOST_BEFORE - 1)) / STEPS


def position_of(length: int) -> int:
    """Return the last position within the first `length` characters."""
    if length <= _EXACT:
        return length
    if length <= length_at(_BY_8):
        return _EXACT + (length - _EXACT) // 8
    return min(_BY_8 + (length - length_at(_BY_8)) // 64, _BEYOND)


def length_at(position: int) -> int:
    """Return the number of characters before a position."""
    if position <= _EXACT:
        return position
    if position <= _BY_8:
        return _EXACT + (position - _EXACT) * 8
    return length_at(_BY_8) + (position - _BY_8) * 64


LONGEST = length_at(_BY_64)  # longest text whose length can be encoded


def is_exact(position: int) -> bool:
    """Return whether the position encodes a length, so that a client can resume from it."""
    return position < _BEYOND


def read(ts: float) -> tuple[int, ReceivedText | None]:
    """Return (the millisecond, the received text that the fraction encodes) of a client's `ts`."""
    whole = math.floor(ts)
    code = round((ts - whole) * STEPS)
    if not 0 < code < STEPS - MOST_BEFORE:
        return whole, None
    claim, position = (1, code - _CLAIM) if code > _CLAIM else (0, code)
    return whole, ReceivedText(claim, length_at(position) if is_exact(position) else None)
