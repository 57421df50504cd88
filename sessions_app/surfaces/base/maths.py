r"""Markdown rules for formulas: `\(…\)`, `\[…\]`, `$…$` and `$$…$$` keep their source, which is no Markdown.

A formula on lines of its own ends at its closing delimiter, at an empty line or with the text, so that no later text
changes which lines belong to it.
"""

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

INLINE, BLOCK = "math_inline", "math_block"

_CLOSERS = {r"\(": r"\)", r"\[": r"\]", "$$": "$$"}
_BLOCK_OPENERS = (r"\[", "$$")
_LONGEST = 4000
# As Pandoc: no space inside, and no digit behind, so that prices stay text.
_DOLLARS = re.compile(r"\$(?![\s$])(?:[^$\\]|\\.){1,1000}(?<!\s)\$(?!\d)", re.ASCII | re.DOTALL)


def add_maths(parser: MarkdownIt) -> None:
    """Add the rules. Their tokens contain the source with its delimiters; of a block, `meta` has `is_closed`."""
    parser.inline.ruler.before("escape", INLINE, _inline)
    ends_others = ["paragraph", "reference", "blockquote", "list"]
    parser.block.ruler.before("fence", BLOCK, _block, {"alt": ends_others})


def is_open(text: str, start: int) -> bool:
    """Return whether a formula begins there that does not end in the text."""
    closer = _CLOSERS.get(text[start : start + 2])
    return closer is not None and closer not in text[start + 2 : start + 2 + _LONGEST]


def _inline(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in "\\$":
        return False
    end = _end_of_inline(state.src, state.pos)
    if not end:
        return False
    if not silent:
        state.push(INLINE, "span", 0).content = state.src[state.pos : end]
    state.pos = end
    return True


def _end_of_inline(text: str, start: int) -> int:
    """Return the end of the formula that begins there, 0 if there is none."""
    opener = text[start : start + 2]
    if closer := _CLOSERS.get(opener):
        at = text.find(closer, start + 2, start + 2 + _LONGEST)
        return at + 2 if at > start + 2 else 0
    found = _DOLLARS.match(text, start) if opener.startswith("$") else None
    return found.end() if found else 0


def _block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    first = _line(state, start)
    if state.is_code_block(start) or not first.startswith(_BLOCK_OPENERS):
        return False
    closer = _CLOSERS[first[:2]]
    is_closed = closer in first[2:]
    if is_closed and not first.endswith(closer):  # text follows: it is inline
        return False
    if silent:
        return True
    after = start + 1
    while not is_closed and after < end and not state.isEmpty(after) and state.sCount[after] >= state.blkIndent:
        is_closed = closer in _line(state, after)
        after += 1
    token = state.push(BLOCK, "div", 0)
    token.content = state.getLines(start, after, state.sCount[start], False)
    token.meta = {"is_closed": is_closed}
    token.map = [start, after]
    state.line = after
    return True


def _line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]].rstrip()
