"""Rendering of the open block of a growing Markdown text.

Markup that is not complete yet is completed (emphasis, code, formulas) or held back (the beginning of a list item, of a
table row, of a link's address), so that the block keeps its shape when the rest comes. The tip is the place at which
plain text that follows may be appended without rendering the block again.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Delimiter

from sessions_app.surfaces.base import maths
from sessions_app.surfaces.base.markdown import make_parser
from sessions_app.surfaces.base.sanitizer import sanitised

TIP = '<span class="tip"></span>'

_END = "\ue000"  # a private character behind the text while it is rendered
_FENCE = re.compile(r"\s*(`{3,}|~{3,})[^\n]*\n")
_FENCE_LINE = re.compile(r"[ \t]*(`+|~+)[ \t]*")
# Lines that may become the beginning of another block, or of nothing.
_UNCLEAR_LINE = re.compile(r"[ \t>]*(?:[-+*=_~#:`]*|\d{1,9}[.)]?|\\\[?|\$\$?|(?:```|~~~).*|\|.*)[ \t]*")
_UNCLEAR_END = re.compile(r"(?:[*_`~\[!\\$<]+|\[[ ]*[0-9a-fA-F][0-9a-fA-F ,-]*)$")
_LAST_WORD = re.compile(r"\S*\Z")
_ENDS_PLAIN = re.compile(r"[\n*_`\[\]()|<>~^\\$!&/]")
_LINK = re.compile(rf"!?\[([^\[\]]*)\]\([^()\s]*{_END}\Z")
_MOST_OPEN = 8  # of emphasis that is completed


class OpenBlock(NamedTuple):
    """A rendered open block.

    source: the Markdown that it shows.
    is_code: it is a code block.
    """

    source: str
    html: str
    is_code: bool = False

    @property
    def has_tip(self) -> bool:
        return TIP in self.html

    def takes(self, tail: str) -> bool:
        """Return whether the text that follows can be appended at the tip."""
        return self.has_tip and ("\n" not in tail if self.is_code else not _ENDS_PLAIN.search(tail))


def render_open(text: str, env: Mapping[str, Any]) -> OpenBlock:
    """Return the rendering of a text that is not complete. env: as for `markdown.render`; it is not changed."""
    is_code = bool(_FENCE.match(text))
    source = _clear_code(text) if is_code else _clear_text(text)
    if not source.strip():
        return OpenBlock(source, "", is_code)
    has_tip = not source.endswith("\n")
    html = sanitised(_parser.render(source + _END if has_tip else source, dict(env)))
    html = html.replace(f'<span class="c-err">{_END}</span>', _END)  # no lexer knows the character
    is_unique = html.count(_END) == 1  # not so in the address of a link
    return OpenBlock(source, html.replace(_END, TIP if is_unique else ""), is_code)


def _clear_code(text: str) -> str:
    """Return the source of a code block without a line that may close it."""
    head, line_end, last = text.rpartition("\n")
    return head + line_end if _FENCE_LINE.fullmatch(last) else text


def _clear_text(text: str) -> str:
    """Return the source without markup at its end whose meaning is open. It ends with a line end if a line was cut."""
    head, line_end, last = text.rpartition("\n")
    if not _UNCLEAR_LINE.fullmatch(last):
        return _without_small_text(_UNCLEAR_END.sub("", text))
    before, _, header = head.rpartition("\n")
    if _is_row(header) and not _is_row(before.rpartition("\n")[2]):  # a table begins with two lines
        head = before
    return head.rstrip("\n") + line_end if head.strip() else ""


def _without_small_text(text: str) -> str:
    """Return the source without a subscript or superscript at its end that is not closed."""
    last = _LAST_WORD.search(text)
    word, begins = (last[0], last.start()) if last else ("", 0)
    opened = [word.rfind(mark) for mark in "~^" if word.count(mark) % 2]
    return text[: begins + min(opened)] if opened and min(opened) > 0 else text


def _is_row(line: str) -> bool:
    return line.lstrip(" >").startswith("|")


def _is_at_end(state: StateInline) -> bool:
    return state.src.endswith(_END)


def _complete_code(state: StateInline, silent: bool) -> bool:
    ticks = re.compile("`+").match(state.src, state.pos)
    if silent or not ticks or not _is_at_end(state):
        return False
    if re.compile(rf"(?<!`){ticks[0]}(?!`)").search(state.src, ticks.end()):
        return False
    state.push("code_inline", "code", 0).content = state.src[ticks.end() :]
    state.pos = state.posMax
    return True


def _complete_maths(state: StateInline, silent: bool) -> bool:
    if silent or not _is_at_end(state) or not maths.is_open(state.src, state.pos):
        return False
    state.push(maths.INLINE, "span", 0).content = state.src[state.pos :]
    state.pos = state.posMax
    return True


def _hide_address(state: StateInline, silent: bool) -> bool:
    found = _LINK.match(state.src, state.pos) if state.src[state.pos] in "![" else None
    if silent or not found:
        return False
    state.push("text", "", 0).content = found[1] + _END
    state.pos = state.posMax
    return True


def _complete_emphasis(state: StateInline) -> None:
    """Close the emphasis that is still open at the end, the innermost first."""
    if not _is_at_end(state):
        return
    opened, closed_up_to = [], -1
    for place, delimiter in enumerate(state.delimiters):
        closed_up_to = max(closed_up_to, delimiter.end)
        if delimiter.open and not delimiter.close and delimiter.end < 0 and place > closed_up_to:
            opened.append(delimiter)
    for delimiter in opened[-_MOST_OPEN:][::-1]:
        if chr(delimiter.marker) not in "*_":
            continue
        state.push("text", "", 0).content = chr(delimiter.marker)
        delimiter.end = len(state.delimiters)
        token = len(state.tokens) - 1
        closing = Delimiter(delimiter.marker, delimiter.length, token, end=-1, open=False, close=True)
        state.delimiters.append(closing)


_parser = make_parser()
_parser.inline.ruler.before("backticks", "open_code", _complete_code)
_parser.inline.ruler.before(maths.INLINE, "open_maths", _complete_maths)
_parser.inline.ruler.before("link", "open_link", _hide_address)
_parser.inline.ruler2.after("balance_pairs", "open_emphasis", _complete_emphasis)
