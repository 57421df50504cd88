"""The text of one step as one client receives it. Pure.

A step's text may begin again after a crash, and a client may have some of it from an earlier connection. While the text
repeats what the client has, nothing is sent; where it differs, the client restarts.
"""

from typing import NamedTuple


class TextUpdate(NamedTuple):
    """The next thing to send. restarts: the client first discards what it has of the text."""

    restarts: bool = False
    piece: str = ""


NOTHING = TextUpdate()


class StepText:
    """Compares the text as it is now with what the client has, and returns what to send. length: of what it has."""

    def __init__(self, length: int = 0) -> None:
        self.length = length
        self._pieces: list[str] = []  # the text as it is now
        self._is_prefix = not length  # what the client has is known to be how the text begins
        self._sent: str | None = None  # what the client has, where that is known and `_is_prefix` is not

    @property
    def text(self) -> str:
        """The text as it is now."""
        return "".join(self._pieces)

    @property
    def sent(self) -> str:
        """The text that the client has. Not known before what it has from an earlier connection is recognised."""
        return self.text if self._is_prefix else self._sent or ""

    def add(self, piece: str) -> TextUpdate:
        """Append a piece to the text."""
        self._pieces.append(piece)
        return self._send(piece) if self._is_prefix else self._compare()

    def replace(self, text: str) -> TextUpdate:
        """Replace the whole text."""
        self.reset()
        return self.add(text)

    def reset(self) -> None:
        """Begin the text again. The client restarts later, when the new text turns out to differ."""
        if self._is_prefix:
            self._sent = self.text
        self._pieces.clear()
        self._is_prefix = not self.length

    def close(self) -> TextUpdate:
        """End the text. The client restarts if it has more text than that."""
        return NOTHING if self._is_prefix else self._restart()

    def recognises(self, text: str) -> bool:
        """Return whether this is the text that the client has from an earlier connection. Of the same length."""
        return False

    def _compare(self) -> TextUpdate:
        text, sent = self.text, self._sent
        if len(text) < self.length:
            return NOTHING if sent is None or sent.startswith(text) else self._restart()
        if not (self.recognises(text[: self.length]) if sent is None else text.startswith(sent)):
            return self._restart()
        self._is_prefix = True
        return self._send(text[self.length :])

    def _restart(self) -> TextUpdate:
        self.length, self._is_prefix = 0, True
        return self._send(self.text, restarts=True)

    def _send(self, piece: str, *, restarts: bool = False) -> TextUpdate:
        self.length += len(piece)
        return TextUpdate(restarts, piece)
