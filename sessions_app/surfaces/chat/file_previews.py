"""Previews of files for the panel beside the chat: what is shown of a file, by its type and its bytes.

Markdown and code are rendered and sanitised like answers. Pages (HTML, SVG) and PDF are shown in a frame, which
`panel_views` serves.
"""

import csv
import io
from dataclasses import dataclass, replace
from enum import StrEnum

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from pygments.lexers import find_lexer_class_for_filename

from sessions_app.surfaces.base import markdown
from sessions_app.surfaces.base.highlight import highlighted
from tools_app.types.pictures import media_type_of

MOST_ROWS = 200
MOST_COLUMNS = 50
_LONGEST_CELL = 500
_LONGEST_TEXT = 200_000  # characters
_TYPES = {"text/html": "text/html", "application/xhtml+xml": "text/html", "image/svg+xml": "image/svg+xml"}
_ENDINGS = {"html": "text/html", "htm": "text/html", "svg": "image/svg+xml"}
_TABLES = {"text/csv": "", "text/tab-separated-values": "\t"}
_TABLE_ENDINGS = {"csv": "", "tsv": "\t"}
_SEPARATORS = ",;\t|"


class Kind(StrEnum):
    IMAGE = "image"
    PAGE = "page"
    PDF = "pdf"
    MARKDOWN = "markdown"
    TABLE = "table"
    CODE = "code"
    NONE = "none"


@dataclass(frozen=True)
class File:
    """A file to show. media_type: as its writer named it."""

    name: str
    media_type: str
    data: bytes

    @property
    def ending(self) -> str:
        return self.name.rpartition(".")[2].lower()


@dataclass(frozen=True)
class Preview:
    """The view of a file in the panel.

    html: of Markdown and of code.
    header, rows: of a table.
    note: what is left out, or why nothing is shown.
    has_source: whether the text of the file can be shown instead.
    """

    kind: Kind
    html: SafeString = SafeString("")
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    note: str = ""
    has_source: bool = False


def frame_type(file: File) -> str:
    """Return the media type with which a frame shows the file; empty if none does."""
    if file.data.startswith(b"%PDF-"):
        return "application/pdf"
    if media_type_of(file.data) or _text(file.data) is None:
        return ""
    return _TYPES.get(file.media_type) or _ENDINGS.get(file.ending, "")


def preview_of(file: File, *, as_source: bool = False) -> Preview:
    """Return what the panel shows of a file. as_source: its text, where it has another preview."""
    if media_type_of(file.data):
        return Preview(Kind.IMAGE)
    shown_in_frame = frame_type(file)
    if shown_in_frame == "application/pdf":
        return Preview(Kind.PDF)
    text = _text(file.data)
    if text is None:
        return Preview(Kind.NONE, note="This type of file has no preview. Download it to open it.")
    if not text:
        return Preview(Kind.NONE, note="The file is empty.")
    rich = Preview(Kind.PAGE) if shown_in_frame else _rich(file, text)
    if rich is None:
        return _code(file, text)
    return replace(_code(file, text) if as_source else rich, has_source=True)


def _rich(file: File, text: str) -> Preview | None:
    """Return the preview of a text that is more than its characters; None for code and plain text."""
    if file.media_type == "text/markdown" or file.ending in ("md", "markdown"):
        return Preview(Kind.MARKDOWN, markdown.render(text))
    separator = _TABLES.get(file.media_type, _TABLE_ENDINGS.get(file.ending))
    return None if separator is None else _table(text, separator)


def _text(data: bytes) -> str | None:
    """Return the text of a file in UTF-8; None for another."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _code(file: File, text: str) -> Preview:
    shown = text[:_LONGEST_TEXT]
    lexer = find_lexer_class_for_filename(file.name)
    language = lexer.aliases[0] if lexer and lexer.aliases else ""
    code = mark_safe(highlighted(shown, language))  # noqa: S308 - escaped
    note = "" if shown == text else f"The first {len(shown):,} of {len(text):,} characters."
    return Preview(Kind.CODE, format_html('<pre tabindex="0"><code>{}</code></pre>', code), note=note)


def _table(text: str, separator: str) -> Preview | None:
    """Return the table of comma-separated values; None if it has a single column or is malformed."""
    first = text.partition("\n")[0]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator or max(_SEPARATORS, key=first.count))
    rows, count, width = list[tuple[str, ...]](), 0, 0
    try:
        for row in filter(None, reader):
            count, width = count + 1, max(width, len(row))
            if len(rows) <= MOST_ROWS:
                rows.append(tuple(cell[:_LONGEST_CELL] for cell in row[:MOST_COLUMNS]))
    except csv.Error:
        return None
    if width < 2:
        return None
    columns = min(width, MOST_COLUMNS)
    header, *body = (row + ("",) * (columns - len(row)) for row in rows)
    return Preview(Kind.TABLE, header=header, rows=tuple(body), note=_left_out(len(body), count - 1, columns, width))


def _left_out(rows: int, all_rows: int, columns: int, all_columns: int) -> str:
    notes = [f"The first {rows:,} of {all_rows:,} rows."] if rows < all_rows else []
    notes += [f"The first {columns} of {all_columns:,} columns."] if columns < all_columns else []
    return " ".join(notes)
