"""The live entries of a claim: coalesced pieces of text, and a snapshot after the stream was lost."""

from uuid import UUID

from agents_app import events
from audit_app.stream import Copy, LiveStream, StreamWriter


class LiveText:
    """The live text of one claim. `begin` a step, then `add` its text; nothing here blocks or raises."""

    def __init__(self, writer: StreamWriter, run_id: UUID, fence: int) -> None:
        self._stream: LiveStream = writer.open(run_id, fence, events.CLAIMED, {"fence": fence})
        self._step = 0
        self._text: list[str] = []
        self._length = 0
        self._reasoning_length = 0
        self._copied = 0  # length of the step's text when it was copied last

    @property
    def fenced(self) -> bool:
        return self._stream.fenced

    def begin(self, step: int, *, reset: str = "") -> None:
        """Start a step. reset: the reason why viewers must discard its text (retry | resumed), if any."""
        self._step, self._text, self._length, self._reasoning_length, self._copied = step, [], 0, 0, 0
        if reset:
            self._stream.append(events.MESSAGE_RESET, {"reason": reset}, step=step)

    def add(self, text: str) -> None:
        self._text.append(text)
        if self._stream.lost:
            self._stream.append(events.SNAPSHOT, {"text": "".join(self._text)}, step=self._step)
        else:
            self._stream.append_text(events.TEXT_DELTA, self._step, self._length, text)
        self._length += len(text)

    def add_reasoning(self, text: str) -> None:
        if not self._stream.lost:
            self._stream.append_text(events.REASONING_DELTA, self._step, self._reasoning_length, text)
        self._reasoning_length += len(text)

    def copy(self) -> Copy | None:
        """Return the step's text for the database, if viewers may lack it and no earlier copy has it."""
        if not self._stream.is_in_doubt or self._length == self._copied:
            return None
        self._copied = self._length
        return self._stream.copy(events.SNAPSHOT, {"text": "".join(self._text)}, step=self._step)

    async def flush(self) -> None:
        """Wait until all text has been sent, so that viewers need not read it when the step closes."""
        await self._stream.flush()


class NoLiveText:
    """In place of the live text of a model call that no viewer follows."""

    fenced = False

    def add(self, text: str) -> None:
        """Ignore the text."""

    def add_reasoning(self, text: str) -> None:
        """Ignore the reasoning."""
