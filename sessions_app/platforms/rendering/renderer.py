"""Rendering of Markdown for channels: one dialect for each platform, written from spans, split into parts. Pure."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, islice

from sessions_app.platforms.messages import Rendered
from sessions_app.platforms.rendering.spans import Mark, Signs, Span, address_of, plain_text, read_fences, read_markdown
from sessions_app.platforms.rendering.splitter import split

# An answer of more parts is sent as its beginning and a file with the whole text, on platforms that accept files.
MOST_PARTS = 5
_PARTS_BEFORE_FILE = 2
FILENAME = "answer.md"
# Code, which stays as it is, or a link whose address is a path.
_LINK = re.compile(r"`[^`\n]*`|(?<![!\\])\[(?P<text>[^\[\]\n]+)\]\((?P<path>/(?!/)[^\s()]*)\)")


class Dialect:
    """The text format of a platform. The base class is plain text."""

    signs = Signs()

    def read(self, markdown: str) -> tuple[Span, ...]:
        return read_markdown(markdown, self.signs)

    def write(self, spans: Sequence[Span]) -> str:
        """Return the spans in the dialect. Marks are nested and closed."""
        return plain_text(spans)

    def measure(self, spans: Sequence[Span]) -> int:
        """Return the length of the spans in the unit of the platform's limit."""
        return len(self.write(spans))


class PlainText(Dialect):
    """Plain text. A link's address follows its text."""

    signs = Signs(bullet="- ", aligned_tables=False)

    def read(self, markdown: str) -> tuple[Span, ...]:
        """Return the spans with each address as text of its own, so that an address longer than a part can be split."""
        spans: list[Span] = []
        for address, linked in groupby(read_markdown(markdown, self.signs), address_of):
            spans += linked
            if address:
                link = (Mark("link", address),)
                spans[-1] = Span(f"{spans[-1].text} ", link)  # split from its address only if both do not fit
                spans.append(Span(f"({address})", link))
        return tuple(spans)


class MarkdownSource(Dialect):
    """Markdown as the model wrote it. Code blocks are closed and reopened at a split."""

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
    """Return the parts of a text in a dialect, each within the limit; a very long one as its beginning and a file.

    limit: in the dialect's unit.
    """
    # Markdown without visible text, such as a link without a text, is sent unchanged.
    spans = dialect.read(markdown)
    found = split(spans if plain_text(spans).strip() else [Span(markdown)], limit, dialect.measure)
    parts = list(islice(found, MOST_PARTS + 1) if takes_files else found)
    if len(parts) > MOST_PARTS and takes_files:
        whole = Rendered(f"The whole answer, {len(markdown):,} characters.", markdown, FILENAME)
        return (*(_rendered(part, dialect) for part in parts[:_PARTS_BEFORE_FILE]), whole)
    return tuple(_rendered(part, dialect) for part in parts)


def close_open_marks(partial: str) -> str:
    """Close the marks that unfinished Markdown leaves open, so that a preview shows no bare signs. No text is lost."""
    if _is_in_fence(partial):
        return partial  # an open code block ends with the text, and has no marks inside
    before, gap, last = partial.rpartition("\n\n")
    text, fewest = _visible(last)
    best = last
    for candidate in (last.rstrip(_SIGNS), *(last + sign for sign in _CLOSING)):
        shown, bare = _visible(candidate)
        if bare < fewest and shown == text:
            best, fewest = candidate, bare
    return before + gap + best


def latest(markdown: str, most: int) -> str:
    """Return the last blocks of a long text, about `most` characters."""
    start = markdown.rfind("\n\n", 0, max(len(markdown) - most, 0))
    if start < 0:
        return markdown
    return ("```\n" if _is_in_fence(markdown[:start]) else "") + markdown[start + 2 :]


def _is_in_fence(markdown: str) -> bool:
    return bool(sum(line.lstrip().startswith(("```", "~~~")) for line in markdown.split("\n")) % 2)


_SIGNS = "*~`_"
_CLOSING = ("**", "*", "`", "~~", "***", "_", "__")


def _visible(block: str) -> tuple[str, int]:
    """Return the visible letters and digits of a block, and the number of visible signs outside code."""
    spans = read_markdown(block, Signs())
    prose = "".join(span.text for span in spans if not any(mark.kind in ("code", "pre") for mark in span.marks))
    text = "".join(character for character in plain_text(spans) if character.isalnum())
    return text, sum(prose.count(sign) for sign in "*`~")


def _rendered(spans: Sequence[Span], dialect: Dialect) -> Rendered:
    return Rendered(plain_text(spans), dialect.write(spans))


def with_absolute_links(markdown: str, base_url: str) -> str:
    """Return the Markdown with absolute links to the pages of this installation.

    A link that is a path alone leads nowhere in a chat of a platform.

    base_url: the public address of this installation; without one, the text of each such link remains.
    """
    if "](/" not in markdown:
        return markdown
    source = MarkdownSource()
    spans = source.read(markdown)
    return source.write(
        [
            span if span.marks else replace(span, text=_LINK.sub(lambda link: _absolute(link, base_url), span.text))
            for span in spans
        ]
    )


def _absolute(link: re.Match[str], base_url: str) -> str:
    if link["text"] is None:
        return link[0]
    return f"[{link['text']}]({base_url}{link['path']})" if base_url else link["text"]
