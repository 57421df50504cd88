"""Writes text for a channel: one dialect a platform, each from the same spans, cut into parts. Pure."""

from collections.abc import Sequence
from itertools import groupby, islice

from sessions_app.channels.messages import Rendered
from sessions_app.channels.rendering.spans import Mark, Signs, Span, address_of, plain_text, read_fences, read_markdown
from sessions_app.channels.rendering.splitter import split

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
        """As plain text."""
        return plain_text(spans)

    def measure(self, spans: Sequence[Span]) -> int:
        """In the platform's unit."""
        return len(self.write(spans))


class PlainText(Dialect):
    """A link's address stands behind its text."""

    signs = Signs(bullet="- ", aligned_tables=False)

    def read(self, markdown: str) -> tuple[Span, ...]:
        """The address is text of its own, so that one that is longer than a part can be cut as well."""
        spans: list[Span] = []
        for address, linked in groupby(read_markdown(markdown, self.signs), address_of):
            spans += linked
            if address:
                link = (Mark("link", address),)
                spans[-1] = Span(f"{spans[-1].text} ", link)  # parted from its address only where both do not fit
                spans.append(Span(f"({address})", link))
        return tuple(spans)


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


def render(markdown: str, dialect: Dialect, limit: int, *, takes_files: bool = False) -> tuple[Rendered, ...]:
    """The parts of a text in a dialect, each within the limit; a very long one as its beginning and a file."""
    # Markdown of which nothing is left to read, such as a link without a text, goes out as it was written.
    spans = dialect.read(markdown)
    found = split(spans if plain_text(spans).strip() else [Span(markdown)], limit, dialect.measure)
    parts = list(islice(found, MOST_PARTS + 1) if takes_files else found)
    if len(parts) > MOST_PARTS and takes_files:
        whole = Rendered(f"The whole answer, {len(markdown):,} characters.", markdown, FILENAME)
        return (*(_rendered(part, dialect) for part in parts[:_PARTS_BEFORE_FILE]), whole)
    return tuple(_rendered(part, dialect) for part in parts)


def close_open_marks(partial: str) -> str:
    """Markdown that breaks off, with what it has open closed, so that a preview does not show bare signs.

    No word of it is lost: a cure that would hide some is none.
    """
    if _is_in_fence(partial):
        return partial  # an open code block ends with the text, and signs inside of one mean nothing
    before, gap, last = partial.rpartition("\n\n")
    words, fewest = _look(last)
    best = last
    for candidate in (last.rstrip(_SIGNS), *(last + sign for sign in _CLOSING)):
        shown, bare = _look(candidate)
        if bare < fewest and shown == words:
            best, fewest = candidate, bare
    return before + gap + best


def latest(markdown: str, most: int) -> str:
    """The last blocks of a long text, about that many characters: enough to show where it has got to."""
    start = markdown.rfind("\n\n", 0, max(len(markdown) - most, 0))
    if start < 0:
        return markdown
    return ("```\n" if _is_in_fence(markdown[:start]) else "") + markdown[start + 2 :]


def _is_in_fence(markdown: str) -> bool:
    return bool(sum(line.lstrip().startswith(("```", "~~~")) for line in markdown.split("\n")) % 2)


_SIGNS = "*~`_"
_CLOSING = ("**", "*", "`", "~~", "***", "_", "__")


def _look(block: str) -> tuple[str, int]:
    """What readers see of a block without its signs, and how many signs they see outside of code."""
    spans = read_markdown(block, Signs())
    prose = "".join(span.text for span in spans if not any(mark.kind in ("code", "pre") for mark in span.marks))
    words = "".join(character for character in plain_text(spans) if character.isalnum())
    return words, sum(prose.count(sign) for sign in "*`~")


def _rendered(spans: Sequence[Span], dialect: Dialect) -> Rendered:
    return Rendered(plain_text(spans), dialect.write(spans))
