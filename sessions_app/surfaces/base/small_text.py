r"""Markdown rules for subscript (`H~2~O`) and superscript (`x^2^`), as Pandoc has them: without spaces inside.

Two tildes strike text out, as one does around a text that follows no word.
"""

import re

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline

_TAGS = {"~": "sub", "^": "sup"}
_SMALL = re.compile(r"([~^])((?:[^\s~^\\`*_\[\]<>]|\\[^\s]){1,30})\1(?![~^])")


def add_small_text(parser: MarkdownIt) -> None:
    """Add the rules. Their tokens are `sub_open`, `sub_close`, `sup_open` and `sup_close`."""
    parser.inline.ruler.before("strikethrough", "small_text", _small_text)
    parser.inline.add_terminator_char("^")


def _small_text(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in _TAGS or (state.pos and state.src[state.pos - 1] in "~^"):
        return False
    found = _SMALL.match(state.src, state.pos, state.posMax)
    if found is None or not _follows_a_word(state.src[: state.pos]):
        return False
    if not silent:
        tag = _TAGS[found[1]]
        state.push(f"{tag}_open", tag, 1).markup = found[1]
        state.push("text", "", 0).content = re.sub(r"\\(.)", r"\1", found[2])
        state.push(f"{tag}_close", tag, -1).markup = found[1]
    state.pos = found.end()
    return True


def _follows_a_word(before: str) -> bool:
    return before[-1:].isalnum() or before.endswith((")", "]"))
