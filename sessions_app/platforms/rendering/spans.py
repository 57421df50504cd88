"""Markdown as a flat sequence of text with marks, from which every dialect is written. Pure.

CommonMark with tables and strikethrough. Raw HTML is text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

_SCHEMES = ("http", "https", "mailto", "tel")
# A longer info string is not a language but text, which must not be repeated in each part.
_LONGEST_INFO = 100
_TASK = re.compile(r"\[([ xX])\] ")
_INLINE_MARKS = {"strong": "bold", "em": "italic", "s": "strike"}


@dataclass(frozen=True)
class Mark:
    """A mark.

    kind: bold | italic | strike | code | link | quote | pre.
    value: a link's address, a pre's language.
    """

    kind: str
    value: str = ""


@dataclass(frozen=True)
class Span:
    """Text with the same marks throughout. marks: outermost first."""

    text: str
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Signs:
    """The signs by which a dialect writes blocks without a mark.

    aligned_tables: tables as columns in a pre, else as lines `name: value`.
    named_hosts: a link whose text does not contain the host is followed by it.
    """

    bullet: str = "• "
    bold_headings: bool = True
    aligned_tables: bool = True
    named_hosts: bool = False


def read_markdown(markdown: str, signs: Signs) -> tuple[Span, ...]:
    """Return the text as spans, with a blank line between blocks."""
    return tuple(_merged(_Reader(signs).blocks(SyntaxTreeNode(_parser().parse(markdown)).children)))


def read_fences(markdown: str) -> tuple[Span, ...]:
    """Return the Markdown source as spans, with marks for its outer code blocks only."""
    lines = markdown.split("\n")
    spans: list[Span] = []
    done = 0
    for token in _parser().parse(markdown):
        if token.type == "fence" and token.level == 0 and token.map and len(token.info) <= _LONGEST_INFO:
            start, end = token.map
            spans.append(Span("".join(f"{line}\n" for line in lines[done:start])))
            spans.append(Span(token.content.removesuffix("\n"), (Mark("pre", token.info.strip()),)))
            done = end
            if end < len(lines):
                spans.append(Span("\n"))
    spans.append(Span("\n".join(lines[done:])))
    return tuple(_merged(spans))


def plain_text(spans: Sequence[Span]) -> str:
    return "".join(span.text for span in spans)


def address_of(span: Span) -> str:
    """Return the address of the link that the span is a piece of, or an empty text."""
    return next((mark.value for mark in span.marks if mark.kind == "link"), "")


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


class _Reader:
    def __init__(self, signs: Signs) -> None:
        self._signs = signs

    def blocks(self, nodes: Sequence[SyntaxTreeNode], marks: tuple[Mark, ...] = (), gap: str = "\n\n") -> list[Span]:
        spans: list[Span] = []
        for node in nodes:
            block = self._block(node, marks)
            if block and spans:
                spans.append(Span(gap, marks))
            spans += block
        return spans

    def _block(self, node: SyntaxTreeNode, marks: tuple[Mark, ...]) -> list[Span]:
        match node.type:
            case "heading":
                bold = (Mark("bold"),) if self._signs.bold_headings else ()
                return self._inline(node.children[0], (*marks, *bold))
            case "fence" | "code_block":
                language = node.info.split()[0] if node.type == "fence" and node.info.strip() else ""
                return [Span(node.content.removesuffix("\n"), (*marks, Mark("pre", language)))]
            case "blockquote":
                is_nested = any(mark.kind == "quote" for mark in marks)
                return self.blocks(node.children, marks if is_nested else (*marks, Mark("quote")))
            case "bullet_list" | "ordered_list":
                return self._list(node, marks)
            case "table":
                return self._table(node, marks)
            case "hr":
                return [Span("─" * 10, marks)]
            case _:
                return [span for child in node.children for span in self._inline(child, marks)]

    def _list(self, node: SyntaxTreeNode, marks: tuple[Mark, ...]) -> list[Span]:
        spans: list[Span] = []
        for number, item in enumerate(node.children, start=int(node.attrs.get("start", 1))):
            sign = f"{number}. " if node.type == "ordered_list" else self._signs.bullet
            inner = list(self.blocks(item.children, marks, gap="\n"))
            if inner and (task := _TASK.match(inner[0].text)):
                sign = "☐ " if task[1] == " " else "☑ "
                inner[0] = Span(inner[0].text[task.end() :], inner[0].marks)
            if spans:
                spans.append(Span("\n", marks))
            spans += [Span(sign, marks), *_indented(inner, " " * len(sign))]
        return spans

    def _table(self, node: SyntaxTreeNode, marks: tuple[Mark, ...]) -> list[Span]:
        rows = [
            [plain_text(self._inline(cell.children[0], ())) if cell.children else "" for cell in row.children]
            for part in node.children
            for row in part.children
        ]
        if not self._signs.aligned_tables:
            names, *body = rows
            named = (zip(names, row, strict=False) for row in body)
            return [Span("\n\n".join("\n".join(map(": ".join, row)) for row in named), marks)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        drawn = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        drawn.insert(1, "  ".join("─" * width for width in widths))
        return [Span("\n".join(drawn), (*marks, Mark("pre")))]

    def _inline(self, node: SyntaxTreeNode, marks: tuple[Mark, ...]) -> list[Span]:
        return [span for child in node.children for span in self._piece(child, marks)]

    def _piece(self, node: SyntaxTreeNode, marks: tuple[Mark, ...]) -> list[Span]:
        match node.type:
            case "strong" | "em" | "s":
                return self._inline(node, (*marks, Mark(_INLINE_MARKS[node.type])))
            case "code_inline":
                return [Span(node.content, (*marks, Mark("code")))]
            case "softbreak" | "hardbreak":
                return [Span("\n", marks)]
            case "link":
                return self._link(self._inline(node, marks), str(node.attrs.get("href", "")), len(marks))
            case "image":
                alt = self._inline(node, marks) or [Span(node.content or "image", marks)]
                return self._link(alt, str(node.attrs.get("src", "")), len(marks))
            case _:
                return [Span(node.content, marks)]

    def _link(self, inner: list[Span], address: str, depth: int) -> list[Span]:
        """Return the link's spans, marked if the address is safe to open and not the text itself.

        depth: the number of marks around the link. Its own mark is outside of all further ones: it stays one link.
        """
        text = plain_text(inner)
        if not _is_safe(address) or text in (address, address.removeprefix("mailto:"), address.removeprefix("tel:")):
            return inner
        link = Mark("link", address)
        linked = [Span(span.text, (*span.marks[:depth], link, *span.marks[depth:])) for span in inner]
        host = _host_of(address) if self._signs.named_hosts else ""
        hides = bool(linked and host) and host not in text.lower()
        return [*linked, Span(f" ({host})", inner[0].marks[:depth])] if hides else linked


def _is_safe(address: str) -> bool:
    try:
        return urlsplit(address).scheme.lower() in _SCHEMES
    except ValueError:
        return False


def _host_of(address: str) -> str:
    """Return the host of a web address in lower case, or an empty text."""
    parts = urlsplit(address)
    return parts.hostname or "" if parts.scheme.lower() in ("http", "https") else ""


def _indented(spans: Sequence[Span], indent: str) -> Iterator[Span]:
    """Yield the spans with every line but the first indented, except code."""
    for span in spans:
        is_code = any(mark.kind == "pre" for mark in span.marks)
        yield span if is_code else Span(span.text.replace("\n", "\n" + indent), span.marks)


def _merged(spans: Sequence[Span]) -> Iterator[Span]:
    """Yield the spans without empty ones, with neighbours of equal marks joined."""
    for marks, group in groupby((span for span in spans if span.text), key=lambda span: span.marks):
        yield Span(plain_text(tuple(group)), marks)
