"""What a reader has been told of one text that may begin anew, on this connection and before it. Pure."""

from typing import NamedTuple

from sessions_app.surfaces.threads.event_ids import checksum, running_checksum


class TextUpdate(NamedTuple):
    """What to tell next. restarts: the reader has to forget what it has of the text first."""

    restarts: bool = False
    piece: str = ""


NOTHING = TextUpdate()


class ResumableText:
    """length, check: how much of the text the reader has, and the checksum of that, from an entry id."""

    def __init__(self, length: int = 0, check: int = 0) -> None:
        self.length = length
        self.check = check
        self._running = 0
        self._is_sure = length == 0  # what the reader has is how the text begins
        self._pieces: list[str] = []  # the text as it stands now
        self._before: str | None = None  # what the reader has, where that is known

    def add(self, piece: str) -> TextUpdate:
        """More text."""
        self._pieces.append(piece)
        return self._advance(piece) if self._is_sure else self._compare()

    def replace(self, text: str) -> TextUpdate:
        """The text is this."""
        self.reset()
        return self.add(text)

    def reset(self) -> None:
        """The text begins anew. The reader is told when it turns out to say something else than before."""
        if self._is_sure:
            self._before = "".join(self._pieces)
        self._pieces.clear()
        self._is_sure = self.length == 0

    def close(self) -> TextUpdate:
        """The text is whole."""
        return NOTHING if self._is_sure else self._restart("".join(self._pieces))

    def _compare(self) -> TextUpdate:
        now = "".join(self._pieces)
        if len(now) < self.length:
            differs = self._before is not None and not self._before.startswith(now)
            return self._restart(now) if differs else NOTHING
        running = running_checksum(now[: self.length])
        if checksum(running) != self.check:
            return self._restart(now)
        self._is_sure, self._running = True, running
        return self._advance(now[self.length :])

    def _restart(self, now: str) -> TextUpdate:
        self.length = self.check = self._running = 0
        self._is_sure = True
        return TextUpdate(True, self._advance(now).piece)

    def _advance(self, piece: str) -> TextUpdate:
        self._running = running_checksum(piece, self._running)
        self.check = checksum(self._running)
        self.length += len(piece)
        return TextUpdate(False, piece)
