"""Text for protocols that can only append, such as the chunks of Chat Completions.

Such a protocol cannot take text back: where a text that begins again differs from what was sent, the whole new text
follows after an empty line.
"""

from uuid import UUID

from agents_app.events import MESSAGE_RESET, SNAPSHOT, TEXT_DELTA
from sessions_app.events import STEP_CLOSING
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


class AppendedTexts:
    """The texts of the steps of runs, for one client that shows those of a run as one, with empty lines in between."""

    def __init__(self) -> None:
        self._texts: dict[tuple[UUID | None, int], AppendedText] = {}
        self._begun: set[UUID | None] = set()  # runs of which the client has some text
        self._is_interrupted = False

    @property
    def has_text(self) -> bool:
        return bool(self._begun)

    def see(self, event: SessionEvent) -> str:
        """Return the text to append for an event, often empty."""
        if event.step is None or event.type not in (*TEXT, *STEP_CLOSING):
            return ""
        text = self._texts.setdefault((event.run_id, event.step), AppendedText())
        follows = self._is_interrupted or (not text.length and event.run_id in self._begun)
        piece = text.see(event)
        if not piece:
            return ""
        self._begun.add(event.run_id)
        self._is_interrupted = False
        return BREAK + piece if follows else piece

    def interrupt(self) -> None:
        """Note that text which is not the model's was sent in between."""
        self._begun.add(None)
        self._is_interrupted = True

    def begin(self, run_id: UUID) -> None:
        """Note that the client has some text of a run, from an earlier connection."""
        self._begun.add(run_id)

    def forget(self, run_id: UUID | None) -> None:
        """Drop the texts of a run that has ended."""
        self._texts = {key: text for key, text in self._texts.items() if key[0] != run_id}
        self._begun.discard(run_id)
