"""Splitting of growing Markdown text into finished top-level blocks, each of which is rendered once.

A block is finished when no further text can change it. The rest is the open block. The cuts depend on the text alone,
not on the pieces in which it came.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markdown_it.token import Token

from sessions_app.surfaces.base.markdown import parser
from sessions_app.surfaces.base.maths import BLOCK as MATH_BLOCK

_LINE_END = re.compile(r"\r\n?|\n")
_ENDED_BY_BLANK_LINE = {"paragraph_open", "table_open", MATH_BLOCK}
_COMPLETE_AT_ONCE = {"heading_open", "hr"}
_KNOWS_ITS_END = {*_ENDED_BY_BLANK_LINE, *_COMPLETE_AT_ONCE, "fence"}
# A longer open block is parsed again only after it has grown by this fraction, so that the work stays linear.
_LONG = 1000
_GROWTH = 16


@dataclass(frozen=True)
class Block:
    """A block.

    source: the text since the end of the previous block.
    end: its end in the whole text, in code points.
    """

    source: str
    end: int


class BlockSplitter:
    """Splits the text of a step, given piece by piece.

    text: all of it so far.
    done: end of its last finished block.
    """

    def __init__(self) -> None:
        self.text = ""
        self.done = 0
        self._parse_again_at = 0

    def feed(self, piece: str) -> list[Block]:
        """Add a piece and return the blocks that it finishes."""
        self.text += piece
        if len(self.text) < self._parse_again_at or not _LINE_END.search(piece):
            return []
        ends = [self.done, *(self.done + end for end in _ends(self.text[self.done :]))]
        blocks = [Block(self.text[start:end], end) for start, end in pairwise(ends)]
        self.done = ends[-1]
        open_length = len(self.text) - self.done
        self._parse_again_at = len(self.text) + (open_length // _GROWTH if open_length > _LONG else 0)
        return blocks


def _ends(text: str) -> list[int]:
    """Return the ends of the finished blocks."""
    line_ends = _complete_lines(text)
    if not line_ends:
        return []
    tokens: list[Token] = []
    parser.block.parse(_LINE_END.sub("\n", text[: line_ends[-1]]), parser, {}, tokens)
    opening = [token for token in tokens if token.level == 0 and token.nesting >= 0 and token.map]
    if not opening:
        return []
    # Lists and the like end at the start of the next block: the cut is the same whether or not that is there yet.
    cuts = [
        _lines(token)[1] if token.type in _KNOWS_ITS_END else _lines(following)[0]
        for token, following in pairwise(opening)
    ]
    if _is_finished(opening[-1], text, line_ends):
        cuts.append(_lines(opening[-1])[1])
    return [line_ends[line - 1] for line in cuts]


def _complete_lines(text: str) -> list[int]:
    """Return the end of each complete line. A carriage return at the end of the text may be half a line end."""
    ends = [match.end() for match in _LINE_END.finditer(text)]
    if ends and text.endswith("\r"):
        ends.pop()
    return ends


def _is_finished(last: Token, text: str, line_ends: Sequence[int]) -> bool:
    first, after = _lines(last)
    if last.type == "fence":  # an open one reaches to the end of the text
        closing = rf" {{0,3}}{re.escape(last.markup[0])}{{{len(last.markup)},}}[ \t\r\n]*"
        return after - 1 > first and bool(re.fullmatch(closing, _line(text, line_ends, after - 1)))
    if last.meta.get("is_closed"):
        return True
    if last.type in _ENDED_BY_BLANK_LINE:
        return after < len(line_ends) and not _line(text, line_ends, after).strip(" \t\r\n")
    return last.type in _COMPLETE_AT_ONCE


def _lines(token: Token) -> tuple[int, int]:
    """Return the first line of a block and the line after it."""
    assert token.map is not None  # noqa: S101 - blocks have one
    return token.map[0], token.map[1]


def _line(text: str, line_ends: Sequence[int], number: int) -> str:
    return text[line_ends[number - 1] if number else 0 : line_ends[number]]
