"""Dialects that write formats by signs around the text, such as `*bold*`, which end with the line. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import ClassVar

from sessions_app.platforms.rendering.renderer import PlainText
from sessions_app.platforms.rendering.spans import Mark, Span, plain_text

# A sign in a text that would begin a format, since another one follows in its line.
_LITERAL = re.compile(r"(?<!\w)(?P<sign>[*_~`])(?=\S[^\n]*(?P=sign))")
_LINES = re.compile(r"(\n)")


class SignedText(PlainText):
    """Text with signs. A link's address follows its text.

    format_signs: by the kind of a mark.
    literal: what replaces a sign that is text.
    fence: before and after code.
    """

    format_signs: ClassVar[Mapping[str, str]] = {}
    literal: ClassVar[str] = r"\g<sign>"
    fence: ClassVar[tuple[str, str]] = ("```", "```")

    def write(self, spans: Sequence[Span]) -> str:
        groups = groupby(spans, lambda span: (_has(span, "pre"), _has(span, "quote")))
        return "".join(self._block(tuple(group), *kind) for kind, group in groups)

    def _block(self, spans: Sequence[Span], is_code: bool, is_quote: bool) -> str:
        if is_code:
            return plain_text(spans).join(self.fence)
        text = "".join(self._inline(spans))
        return "\n".join(f"> {line}" for line in text.split("\n")) if is_quote else text

    def _inline(self, spans: Sequence[Span]) -> Iterator[str]:
        opened: list[Mark] = []
        for text, marks in self._pieces(spans):
            kept = 0
            while kept < min(len(opened), len(marks)) and opened[kept] == marks[kept]:
                kept += 1
            yield "".join(self.format_signs[mark.kind] for mark in reversed(opened[kept:]))
            yield "".join(self.format_signs[mark.kind] for mark in marks[kept:])
            opened = [*opened[:kept], *marks[kept:]]
            yield text
        yield "".join(self.format_signs[mark.kind] for mark in reversed(opened))

    def _pieces(self, spans: Sequence[Span]) -> Iterator[tuple[str, list[Mark]]]:
        """Yield texts with their marks. Spaces at the ends of a mark, and line ends, are outside of it."""
        for span in spans:
            marks = [mark for mark in span.marks if mark.kind in self.format_signs]
            for line in _LINES.split(span.text):
                core = line.strip()
                start = line.find(core)
                if not marks or not core:
                    yield _LITERAL.sub(self.literal, line), []
                    continue
                yield line[:start], []
                yield core, marks
                yield line[start + len(core) :], []


def _has(span: Span, kind: str) -> bool:
    return any(mark.kind == kind for mark in span.marks)
