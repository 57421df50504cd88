"""Text for clients that resume behind an entry id, which holds the length and a checksum of what they have. Pure."""

from sessions_app.live_view.step_text import StepText, TextUpdate
from sessions_app.surfaces.threads.event_ids import checksum, running_checksum


class ResumableText(StepText):
    """length, check: of the text that the client has, as in its entry id."""

    def __init__(self, length: int = 0, check: int = 0) -> None:
        super().__init__(length)
        self.check = check
        self._running = 0

    def recognises(self, text: str) -> bool:
        self._running = running_checksum(text)
        return checksum(self._running) == self.check

    def _send(self, piece: str, *, restarts: bool = False) -> TextUpdate:
        self._running = running_checksum(piece, 0 if restarts else self._running)
        self.check = checksum(self._running)
        return super()._send(piece, restarts=restarts)
