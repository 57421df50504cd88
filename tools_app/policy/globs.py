"""Globs, matched in linear time: `*` is any text, `?` one character, `\\` escapes the next one. Pure."""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from tools_app.host_rules import PatternError as PatternError

# Represents `?` in a piece; no argument of a call contains it.
_ONE = "\0"
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True)
class Glob:
    """A parsed glob.

    pieces: the texts between the stars, in order.
    folded: the pieces, folded as by `fold`.
    """

    pieces: tuple[str, ...]
    folded: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "Glob":
        pieces = tuple(_pieces(text))
        return cls(pieces, tuple(_fold(piece) for piece in pieces))

    @property
    def is_literal(self) -> bool:
        return len(self.pieces) == 1 and _ONE not in self.pieces[0]

    def matches(self, text: str) -> bool:
        """Return whether the glob matches the whole text."""
        return _fits(self.pieces, text)

    def finds(self, folded: str) -> bool:
        """Return whether the glob matches the whole of a folded text."""
        return _fits(self.folded, folded)


def fold(text: str) -> str:
    """Return the text without differences of case, width, ligatures, invisible characters and runs of spaces."""
    return _fold(text).strip()


def _fold(text: str) -> str:
    if text.isascii():
        return _SPACES.sub(" ", text.lower())
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return _SPACES.sub(" ", "".join(character for character in plain if unicodedata.category(character) != "Cf"))


def _pieces(text: str) -> list[str]:
    pieces, at = [""], 0
    while at < len(text):
        character = text[at]
        if character == "\\" and at + 1 < len(text):
            at += 1
            pieces[-1] += text[at]
        elif character != "*":
            pieces[-1] += _ONE if character == "?" else character
        elif pieces[-1] or len(pieces) == 1:  # `**` is `*`
            pieces.append("")
        at += 1
    return pieces


def _fits(pieces: tuple[str, ...], text: str) -> bool:
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return len(text) == len(first) and _starts(text, first, 0)
    if len(text) < sum(len(piece) for piece in pieces) or not _starts(text, first, 0):
        return False
    if not _starts(text, last, len(text) - len(last)):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in pieces[1:-1]:
        found = _find(text, piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _starts(text: str, piece: str, at: int) -> bool:
    if _ONE not in piece:
        return text.startswith(piece, at)
    return _compiled(piece).match(text, at) is not None


def _find(text: str, piece: str, at: int, end: int) -> int:
    if _ONE not in piece:
        return text.find(piece, at, end)
    found = _compiled(piece).search(text, at, end)
    return found.start() if found else -1


@lru_cache(maxsize=4096)
def _compiled(piece: str) -> re.Pattern[str]:
    """Return a pattern of fixed length, so that matching never backtracks."""
    return re.compile("".join("." if character == _ONE else re.escape(character) for character in piece), re.DOTALL)
