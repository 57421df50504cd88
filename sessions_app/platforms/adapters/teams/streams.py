"""Streamed answers in one-to-one chats: updates that extend each other, then the final message in their place.

See https://learn.microsoft.com/microsoftteams/platform/bots/streaming-ux. A stream ends two minutes after it began.
"""

from dataclasses import dataclass
from os.path import commonprefix
from typing import Any

_MOST_OPEN = 1000


@dataclass
class Stream:
    """The stream of a run.

    text: shown last.
    latest: the last text that was to be shown.
    is_closed: the service takes no more updates.
    """

    id: str = ""
    sequence: int = 0
    text: str = ""
    latest: str = ""
    is_closed: bool = False

    def next_update(self, body: str) -> dict[str, Any] | None:
        """Return the fields of an update that shows this text; None if it has nothing new, or does not extend the last.

        Whole paragraphs are shown, and what two texts in a row agree on: the end of a paragraph may change, such as the
        marks that are closed there.
        """
        agreed, self.latest = commonprefix([self.latest, body]), body
        text = max(body[: body.rfind("\n\n") + 1], agreed, key=len).rstrip()
        if self.is_closed or not text.startswith(self.text) or text == self.text:
            return None
        self.sequence, self.text = self.sequence + 1, text
        return {"type": "typing", "text": text, **self._info("streaming", streamSequence=self.sequence)}

    def final(self) -> dict[str, Any]:
        """Return the fields that make a message the end of the stream."""
        return self._info("final")

    def _info(self, kind: str, **more: Any) -> dict[str, Any]:
        info = {"streamType": kind, **more, **({"streamId": self.id} if self.id else {})}
        return {"entities": [{"type": "streaminfo", **info}], "channelData": info}


class Streams:
    """The open streams of an account, by run."""

    def __init__(self) -> None:
        self._open: dict[str, Stream] = {}

    def of_run(self, run_id: str) -> Stream:
        while len(self._open) >= _MOST_OPEN:  # those of runs that ended elsewhere
            del self._open[next(iter(self._open))]
        return self._open.setdefault(run_id, Stream())

    def take(self, run_id: str) -> Stream | None:
        """Remove and return the open stream of a run."""
        stream = self._open.pop(run_id, None)
        return stream if stream and stream.id else None
