"""Text of a run for protocols that can only append: what to send so that the reader never sees a gap or a double. Pure.

A step's text may begin again after a crash. As long as the new text repeats what was sent, nothing is sent; where it
differs, the whole of it follows after an empty line: such a protocol cannot take words back.
"""

from agents_app.events import MESSAGE_RESET, SNAPSHOT, TEXT_DELTA
from sessions_app.live_view.cursor import SessionEvent

BREAK = "\n\n"
TEXT = (TEXT_DELTA.name, SNAPSHOT.name, MESSAGE_RESET.name)


class AppendedText:
    """The text of one step. sent: what the reader has of it, from where it last began."""

    def __init__(self) -> None:
        self.sent = ""
        self._now = ""
        self._repeats = False  # the text began again and has not caught up with what was sent

    def see(self, fact: SessionEvent) -> str:
        """What to append for a fact of TEXT or STEP_CLOSING of this step; often nothing."""
        match fact.type:
            case TEXT_DELTA.name if not self._repeats:
                self.sent += fact.payload["text"]
                return str(fact.payload["text"])
            case TEXT_DELTA.name:
                return self._become(self._now + fact.payload["text"])
            case SNAPSHOT.name:
                return self._become(fact.payload["text"])
            case MESSAGE_RESET.name:
                self._now, self._repeats = "", True
                return ""
        return self._close()

    def _become(self, text: str) -> str:
        if text.startswith(self.sent):
            piece, self.sent, self._repeats = text[len(self.sent) :], text, False
            return piece
        if self.sent.startswith(text):
            self._now, self._repeats = text, True
            return ""
        self.sent, self._repeats = text, False
        return BREAK + text

    def _close(self) -> str:
        """The text is whole: if more was sent than it now says, it differs after all."""
        if not self._repeats:
            return ""
        self.sent, self._repeats = self._now, False
        return BREAK + self.sent if self.sent else ""
