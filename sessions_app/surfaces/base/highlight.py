"""Syntax highlighting on the server by CSS classes: the page needs neither scripts nor inline styles for it."""

from functools import lru_cache

from django.utils.html import escape
from pygments import lex
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES, _TokenType
from pygments.util import ClassNotFound

PREFIX = "c-"
CLASSES = {PREFIX + name for name in STANDARD_TYPES.values() if name}

# Lexers consist of regular expressions, some of which take long on unusual input.
_LONGEST_SOURCE = 20_000
_LONGEST_LINE = 2_000


def highlighted(source: str, language: str) -> str:
    """Return the source as escaped HTML with a class on each token; plain if the language is unknown."""
    lexer = _lexer(language.lower())
    if lexer is None or len(source) > _LONGEST_SOURCE or max(map(len, source.split("\n"))) > _LONGEST_LINE:
        return escape(source)
    return "".join(
        f'<span class="{name}">{escape(text)}</span>' if (name := class_of(kind)) else escape(text)
        for kind, text in lex(source, lexer)
    )


def class_of(kind: _TokenType) -> str:
    """Return the class of a token type, or of its nearest parent that has one; "" for plain text."""
    while kind not in STANDARD_TYPES and kind.parent is not None:
        kind = kind.parent
    name = STANDARD_TYPES.get(kind, "")
    return PREFIX + name if name else ""


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    if not language:
        return None
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
