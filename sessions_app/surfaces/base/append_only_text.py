"""Text for protocols that can only append, such as the chunks of Chat Completions.

Such a protocol cannot take text back: where a text that begins again differs from what was sent, the whole new text
follows after an empty line.
"""

from agents_app.events import MESSAGE_RESET, SNAPSHOT, TEXT_DELTA
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.live_view.step_text import StepText, TextUpdate

BREAK = "\n\n"
TEXT = (TEXT_DELTA.name, SNAPSHOT.name, MESSAGE_RESET.name)


class AppendedText(StepText):
    """The text of one step, all of which is sent on one connection."""

    def see(self, event: SessionEvent) -> str:
        """Return the text to append for an event of TEXT or STEP_CLOSING of this step; often empty."""
        update = self._update(event)
        return BREAK + update.piece if update.restarts and update.piece else update.piece

    def _update(self, event: SessionEvent) -> TextUpdate:
        match event.type:
            case TEXT_DELTA.name:
                return self.add(TEXT_DELTA.payload(event)["text"])
            case SNAPSHOT.name:
                return self.replace(SNAPSHOT.payload(event)["text"])
            case MESSAGE_RESET.name:
                self.reset()
                return TextUpdate()
        return self.close()
