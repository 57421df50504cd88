"""The state of one run in a viewer: the text that it shows of the open step, and the live entries that must wait.

A step is open until a stored event closes it by naming the length of its text. Only one step is open at a time.
"""

import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from agents_app.events import CLAIMED, MESSAGE_RESET, REASONING_DELTA, SNAPSHOT, TEXT_DELTA
from audit_app.follow.items import START, LiveEntry, Position


@dataclass(frozen=True, slots=True)
class Shown:
    """A live event to show."""

    type: str
    step: int | None
    payload: dict[str, Any]


class RunTextState:
    """One run as one viewer sees it.

    position: the last entry of its stream that was taken.
    since: the first claim of which live text was shown; 0 if nothing was left out.
    """

    def __init__(self, run_id: UUID) -> None:
        self.run_id = run_id
        self.position = START
        self.since = 0
        self.is_over = False
        self.held: deque[LiveEntry] = deque()
        self.open_executions: set[str] = set()
        self._has_started = False
        self._held_before: Position = START
        self._step = 0
        self._length: int | None = None  # of the open step's text as shown; None: unknown
        self._checksum = 0  # of that text
        self._reasoning = 0
        self._is_void = False  # the shown text is of an older claim

    def assume_empty(self) -> None:
        """Note that the viewer shows nothing of the run yet, as when it was queued just now."""
        if self.position == START:
            self._length = 0

    def start(self) -> None:
        """Note that the viewer has seen the start of the run."""
        self._has_started = True

    def assume_unknown(self, position: Position) -> None:
        """Continue after that position without knowledge of what the viewer shows of the open step."""
        self.position, self._length = position, None

    # Entries wait for the stored events that were written before them.

    def must_wait(self, entry: LiveEntry) -> bool:
        """Return whether stored events that precede the entry have not been seen yet, or may not have been."""
        return bool(self.held) or self._is_early(entry)

    def _is_early(self, entry: LiveEntry) -> bool:
        if not self._has_started:
            return True
        if entry.step is None or entry.step < self._step:
            return False
        return entry.step > self._step or bool(self.open_executions)

    def mark_held(self) -> None:
        """Mark the entries held now: they may go once the timeline has been read to its end."""
        if self.held:
            self._held_before = self.held[-1].position

    def release(self, *, marked: bool = False) -> Iterator[LiveEntry]:
        """Yield in order the held entries that need not wait any longer. Take each before requesting the next.

        marked: also release those of `mark_held`, because the timeline has been read since.
        """
        while self.held:
            if marked and self.held[0].position <= self._held_before:
                self._stop_waiting(self.held[0])
            elif self._is_early(self.held[0]):
                return
            yield self.held.popleft()

    def _stop_waiting(self, entry: LiveEntry) -> None:
        """Drop the conditions that the entry waited for: the timeline has been read, and they were not met."""
        self._has_started = True
        self.open_executions.clear()
        if entry.step is not None and entry.step > self._step:
            self.close(entry.step - 1)

    # Shown text.

    def take(self, entry: LiveEntry) -> list[Shown]:
        """Advance past the entry and return what it adds; nothing for duplicates and for entries of a closed step."""
        if entry.position[0] > self.position[0]:
            self._is_void = self._shows_something()
        self.position = entry.position
        if entry.type == CLAIMED.name or (entry.step is not None and not self._is_open(entry.step)):
            return []
        match entry.type:
            case TEXT_DELTA.name:
                return [*self._reset_void(), *self._take_text(entry)]
            case REASONING_DELTA.name:
                return [*self._reset_void(), *self._take_reasoning(entry)]
            case SNAPSHOT.name:
                return self._take_snapshot(entry)
            case MESSAGE_RESET.name:
                return self._reset(entry.payload)
        return [Shown(entry.type, entry.step, entry.payload)]

    def lacks_text(self, step: int, length: int) -> bool:
        """Return whether the viewer shows anything else than the whole text of the step. length: of that text."""
        if step < self._step:
            return False
        shown = self._length if step == self._step else 0
        return shown != length or self._is_void

    def close(self, step: int) -> None:
        """Mark the step's text as complete: nothing more of it is shown."""
        if step >= self._step:
            self._begin(step + 1)

    def _shows_something(self) -> bool:
        return bool(self._length or self._reasoning)

    def _is_open(self, step: int) -> bool:
        if step > self._step:
            self._begin(step)
        return step == self._step

    def _begin(self, step: int) -> None:
        self._step, self._length, self._checksum, self._reasoning, self._is_void = step, 0, 0, 0, False

    def _take_text(self, entry: LiveEntry) -> list[Shown]:
        offset, text = entry.payload["offset"], entry.payload["text"]
        if self._length is None:
            if offset:
                return []  # its beginning is unknown: the whole text comes when the step closes
            self._length, self._checksum = len(text), _checksum(text)
            return [Shown(SNAPSHOT.name, entry.step, {"text": text})]
        piece = text[self._length - offset :] if offset <= self._length else ""
        if not piece:
            return []  # a duplicate, or after a gap, which the next snapshot or the end of the step fills
        start, self._length = self._length, self._length + len(piece)
        self._checksum = _checksum(piece, self._checksum)
        return [Shown(TEXT_DELTA.name, entry.step, {"offset": start, "text": piece})]

    def _take_snapshot(self, entry: LiveEntry) -> list[Shown]:
        """Replace the shown text; if it is the beginning of the snapshot, only add the rest."""
        text, shown = entry.payload["text"], None if self._is_void else self._length
        is_beginning = shown is not None and _checksum(text[:shown]) == self._checksum
        self._length, self._checksum, self._is_void = len(text), _checksum(text), False
        if shown is None or not is_beginning:
            return [Shown(SNAPSHOT.name, entry.step, entry.payload)]
        piece = text[shown:]
        return [Shown(TEXT_DELTA.name, entry.step, {"offset": shown, "text": piece})] if piece else []

    def _take_reasoning(self, entry: LiveEntry) -> list[Shown]:
        offset, text = entry.payload["offset"], entry.payload["text"]
        start = max(offset, self._reasoning)
        piece = text[start - offset :]
        if not piece:
            return []
        self._reasoning = start + len(piece)
        return [Shown(REASONING_DELTA.name, entry.step, {"offset": start, "text": piece})]

    def _reset(self, fields: dict[str, Any]) -> list[Shown]:
        is_shown = self._shows_something() or self._length is None
        self._begin(self._step)
        return [Shown(MESSAGE_RESET.name, self._step, fields)] if is_shown else []

    def _reset_void(self) -> list[Shown]:
        """Reset text of an older claim before the first piece of a newer one, which begins the step again."""
        return self._reset({"reason": "resumed"}) if self._is_void else []


def _checksum(text: str, before: int = 0) -> int:
    """Return the checksum of a text. before: that of the text before it."""
    return zlib.crc32(text.encode(errors="surrogatepass"), before)
