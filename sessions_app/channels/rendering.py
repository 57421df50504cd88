"""Writes text for a channel: one dialect a platform, each from the same spans, cut into parts. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from sessions_app.channels.messages import Rendered
from sessions_app.channels.spans import Mark, Signs, Span, plain_text, read_fences, read_markdown
from sessions_app.channels.splitting import split, utf16_length

# What an answer of more parts than this becomes, where a platform takes files: its beginning, and the whole as a file.
MOST_PARTS = 5
_PARTS_BEFORE_FILE = 2
FILENAME = "answer.md"


class Dialect:
    """How a platform writes text. Marks nest and are never left open."""

    signs = Signs()

    def read(self, markdown: str) -> tuple[Span, ...]:
        return read_markdown(markdown, self.signs)

    def write(self, spans: Sequence[Span]) -> str:
        """Plain text: a link's address stands behind its text."""
        return "".join(self._with_address(spans))

    def measure(self, spans: Sequence[Span]) -> int:
        """In the platform's unit."""
        return len(self.write(spans))

    @staticmethod
    def _with_address(spans: Sequence[Span]) -> list[str]:
        pieces = []
        for span, following in zip(spans, [*spans[1:], None], strict=False):
            pieces.append(span.text)
            address = _address_of(span)
            if address and address != (_address_of(following) if following else ""):
                pieces.append(f" ({address})")
        return pieces


class PlainText(Dialect):
    signs = Signs(bullet="- ", aligned_tables=False)


class MarkdownSource(Dialect):
    """Markdown as the model wrote it; code blocks are closed and opened again at a cut."""

    def read(self, markdown: str) -> tuple[Span, ...]:
        return read_fences(markdown)

    def write(self, spans: Sequence[Span]) -> str:
        return "".join(self._fenced(span) if span.marks else span.text for span in spans)

    @staticmethod
    def _fenced(span: Span) -> str:
        fence = "```"
        while fence in span.text:
            fence += "`"
        return f"{fence}{span.marks[0].value}\n{span.text}\n{fence}"


@dataclass(frozen=True)
class _Open:
    mark: Mark
    closing: str = field(compare=False)


class TelegramHtml(Dialect):
    """The HTML of Telegram's Bot API. Its limit counts what is left when the tags are taken out."""

    _TAGS = {"bold": "b", "italic": "i", "strike": "s", "code": "code", "quote": "blockquote"}

    def write(self, spans: Sequence[Span]) -> str:
        pieces: list[str] = []
        opened: list[_Open] = []
        for span in spans:
            wanted = _allowed(span.marks)
            kept = 0
            while kept < min(len(opened), len(wanted)) and opened[kept].mark == wanted[kept]:
                kept += 1
            pieces += [entry.closing for entry in reversed(opened[kept:])]
            del opened[kept:]
            for mark in wanted[kept:]:
                opening, closing = self._tags(mark)
                pieces.append(opening)
                opened.append(_Open(mark, closing))
            pieces.append(escape(span.text, quote=False))
        return "".join([*pieces, *(entry.closing for entry in reversed(opened))])

    def measure(self, spans: Sequence[Span]) -> int:
        return utf16_length(plain_text(spans))

    def _tags(self, mark: Mark) -> tuple[str, str]:
        match mark.kind:
            case "link":
                return f'<a href="{escape(mark.value)}">', "</a>"
            case "pre" if mark.value:
                return f'<pre><code class="language-{escape(mark.value)}">', "</code></pre>"
            case "pre":
                return "<pre>", "</pre>"
            case kind:
                tag = self._TAGS[kind]
                return f"<{tag}>", f"</{tag}>"


def render(markdown: str, dialect: Dialect, limit: int, *, takes_files: bool = False) -> tuple[Rendered, ...]:
    """The parts of a text in a dialect, each within the limit; a very long one as its beginning and a file."""
    parts = split(dialect.read(markdown), limit, dialect.measure)
    if takes_files and len(parts) > MOST_PARTS:
        whole = Rendered(f"The whole answer, {len(markdown):,} characters.", markdown, FILENAME)
        return (*(_rendered(part, dialect) for part in parts[:_PARTS_BEFORE_FILE]), whole)
    return tuple(_rendered(part, dialect) for part in parts)


def close_open_marks(partial: str) -> str:
    """Markdown that breaks off, with what it has open closed, so that a preview does not show bare signs."""
    last = partial.rpartition("\n\n")[2]
    if "```" in partial:
        return partial  # an open fence ends with the text, and signs inside of one mean nothing
    candidates = [partial.rstrip("*~`_") if last.strip("*~`_ ") else "", *(partial + sign for sign in _CLOSING)]
    shown = {text: _bare_signs(text.rpartition("\n\n")[2]) for text in [partial, *candidates]}
    return min(shown, key=lambda text: shown[text])


_CLOSING = ("**", "*", "`", "~~", "***", "_", "__")


def _bare_signs(block: str) -> int:
    spans = read_markdown(block, Signs())
    code = ("code", "pre")
    text = "".join(span.text for span in spans if not any(mark.kind in code for mark in span.marks))
    return sum(text.count(sign) for sign in "*`~")


def _rendered(spans: Sequence[Span], dialect: Dialect) -> Rendered:
    return Rendered(plain_text(spans), dialect.write(spans))


def _address_of(span: Span) -> str:
    return next((mark.value for mark in span.marks if mark.kind == "link"), "")


def _allowed(marks: Sequence[Mark]) -> list[Mark]:
    """Telegram takes neither marks inside of code, nor code blocks or quotes inside of anything but a quote."""
    found: list[Mark] = []
    for mark in marks:
        if mark in found or any(outer.kind == mark.kind for outer in found):
            continue
        if mark.kind in ("code", "pre"):
            return [*(outer for outer in found if outer.kind == "quote"), mark]
        found.append(mark)
    return found
