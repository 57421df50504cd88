"""The files of a message, as shown below it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sessions_app import selectors
from sessions_app.attachments import model_text, records
from sessions_app.models import Attachment, Turn
from sessions_app.surfaces.chat import labels
from sessions_app.surfaces.chat.turn_views import TurnView


@dataclass(frozen=True)
class SentFile:
    """A file of a message.

    url: url of its content, empty if the page cannot offer it.
    problem: why it was not fetched.

    omitted: why the model did not get it.
    is_transcribed: it is audio whose words the model got.
    transcript: these words, if they are not those of the message.
    read_as: how much of the text of a document was read.
    pages: its number of pages, sheets or slides.
    """

    name: str
    size: str
    url: str
    is_image: bool
    problem: str
    omitted: str = ""
    is_transcribed: bool = False
    transcript: str = ""
    read_as: str = ""
    pages: str = ""


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
    size = "" if row.size_bytes is None else labels.size(row.size_bytes)
    name = row.filename or ("voice note" if row.kind == "voice" else row.kind)
    shown = SentFile(name, size, records.url_of(row), row.is_shown_image, row.error, row.omitted_because)
    described = records.described(row)
    shown = replace(shown, pages=described.pages)
    if described.is_document:
        cut = f", cut at {len(row.text):,}" if len(row.text) < (row.characters or 0) else ""
        return replace(shown, read_as=f"read as text, {row.characters or 0:,} characters{cut}")
    if row.transcription not in (Attachment.IN_MESSAGE, Attachment.IN_FILE):
        return shown
    return replace(shown, is_transcribed=True, transcript=row.text if row.transcription == Attachment.IN_FILE else "")
