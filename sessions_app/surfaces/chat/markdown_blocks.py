"""Splitting of growing Markdown text into finished top-level blocks, each of which is rendered once.

A block is finished when no further text can change it. The rest is the open block. Of an open list, quotation or table,
the complete lines are the draft. The cuts depend on the text alone, not on the pieces in which it came.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markdown_it.token import Token

from sessions_app.surfaces.chat.markdown import parser

_LINE_END = re.compile(r"\r\n?|\n")
_ENDED_BY_BLANK_LINE = {"paragraph_open", "table_open"}
_COMPLETE_AT_ONCE = {"heading_open", "hr"}
_KNOWS_ITS_END = {*_ENDED_BY_BLANK_LINE, *_COMPLETE_AT_ONCE, "fence"}
_HAS_DRAFT = {"bullet_list_open", "ordered_list_open", "blockquote_open", "table_open"}
# A longer open block is parsed again only after it has grown by this fraction, so that the work stays linear.
_LONG = 1000
_GROWTH = 16


@dataclass(frozen=True)
class Block:
    """A block. source: the text since the end of the previous block; end: its end in the whole text, in code points."""

    source: str
    end: int


class BlockSplitter:
    """Splits the text of one step, given piece by piece.

    text: all text so far; done: the end of its last finished block; draft: complete lines of the open block, if any.
    """

    def __init__(self) -> None:
        self.text = ""
        self.done = 0
        self.draft: Block | None = None
        self._parse_again_at = 0

    def feed(self, piece: str) -> list[Block]:
        """Add a piece and return the blocks that it finishes."""
        self.text += piece
        if len(self.text) < self._parse_again_at or not _LINE_END.search(piece):
            return []
        ends, draft_end = _ends(self.text[self.done :])
        begin = self.done
        blocks = [self._cut(begin + end) for end in ends]
        self.draft = Block(self.text[self.done : begin + draft_end], begin + draft_end) if draft_end else None
        open_length = len(self.text) - self.done
        self._parse_again_at = len(self.text) + (open_length // _GROWTH if open_length > _LONG else 0)
        return blocks

    def _cut(self, end: int) -> Block:
        block = Block(self.text[self.done : end], end)
        self.done = end
        return block


def _ends(text: str) -> tuple[list[int], int]:
    """Return the ends of the finished blocks, and of the draft of the open one (0: it has none)."""
    line_ends = _complete_lines(text)
    if not line_ends:
        return [], 0
    tokens: list[Token] = []
    parser.block.parse(_LINE_END.sub("\n", text[: line_ends[-1]]), parser, {}, tokens)
    opening = [token for token in tokens if token.level == 0 and token.nesting >= 0 and token.map]
    if not opening:
        return [], 0
    # Lists and the like end at the start of the next block: the cut is the same whether or not that is there yet.
    cuts = [
        _lines(token)[1] if token.type in _KNOWS_ITS_END else _lines(following)[0]
        for token, following in pairwise(opening)
    ]
    is_finished = _is_finished(opening[-1], text, line_ends)
    if is_finished:
        cuts.append(_lines(opening[-1])[1])
    has_draft = not is_finished and opening[-1].type in _HAS_DRAFT
    return [line_ends[line - 1] for line in cuts], line_ends[-1] if has_draft else 0


def _complete_lines(text: str) -> list[int]:
    """Return the end of each complete line. A carriage return at the end of the text may be half a line end."""
    ends = [match.end() for match in _LINE_END.finditer(text)]
    if ends and text.endswith("\r"):
        ends.pop()
    return ends


def _is_finished(last: Token, text: str, line_ends: Sequence[int]) -> bool:
    if last.type in _COMPLETE_AT_ONCE:
        return True
    if last.type == "fence":
        return _is_closed(last, text, line_ends)
    after = _lines(last)[1]
    return (
        last.type in _ENDED_BY_BLANK_LINE
        and after < len(line_ends)
        and not _line(text, line_ends, after).strip(" \t\r\n")
    )


def _is_closed(fence: Token, text: str, line_ends: Sequence[int]) -> bool:
    """Return whether the last line of the fence closes it. An open fence reaches to the end of the text."""
    first, after = _lines(fence)
    closing = rf" {{0,3}}{re.escape(fence.markup[0])}{{{len(fence.markup)},}}[ \t\r\n]*"
    return after - 1 > first and bool(re.fullmatch(closing, _line(text, line_ends, after - 1)))


def _lines(token: Token) -> tuple[int, int]:
    """Return the first line of a block and the line after it."""
    assert token.map is not None  # noqa: S101 - blocks have one
    return token.map[0], token.map[1]


def _line(text: str, line_ends: Sequence[int], number: int) -> str:
    return text[line_ends[number - 1] if number else 0 : line_ends[number]]
