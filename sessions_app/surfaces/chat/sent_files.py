"""The files of a message, as shown below it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sessions_app import selectors
from sessions_app.attachments import model_text
from sessions_app.models import Attachment, Turn
from sessions_app.surfaces.chat import labels
from sessions_app.surfaces.chat.turn_views import TurnView

# Types that every browser shows and that cannot contain scripts.
_SHOWN_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")


@dataclass(frozen=True)
class SentFile:
    """A file of a message. url: of its content, empty if the page cannot offer it; problem: why it was not fetched."""

    name: str
    size: str
    url: str
    is_image: bool
    problem: str


def with_files(view: TurnView, turns: Sequence[Turn]) -> TurnView:
    """Return the view with the files of its user turns. turns: of its run. One query if there are files."""
    rows = [row for files in selectors.attachments_of(turns).values() for row in files]
    if not rows:
        return view
    # The text of a message without any names its files, which are shown anyway.
    names = model_text.file_list((row.kind, row.filename) for row in rows)
    question = "" if view.question == names else view.question
    return replace(view, question=question, files=tuple(_shown(row) for row in rows))


def _shown(row: Attachment) -> SentFile:
    url = f"/api/artifacts/{row.artifact_id}" if row.artifact_id else ""
    size = "" if row.size_bytes is None else labels.size(row.size_bytes)
    is_image = bool(url) and row.mime_type in _SHOWN_IMAGES
    return SentFile(row.filename or row.kind, size, url, is_image, row.error)
