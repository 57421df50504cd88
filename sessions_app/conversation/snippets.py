"""Excerpts of texts around the words that somebody searches. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

MOST_WORDS = 8
_BEFORE, _LONGEST = 30, 110


@dataclass(frozen=True)
class Piece:
    """A part of an excerpt. is_match: it is a word that was searched."""

    text: str
    is_match: bool = False


def words_of(query: str) -> tuple[str, ...]:
    """Return the words of a query, without those that are there twice, in any case."""
    found = {word.casefold(): word for word in reversed(query.replace("\0", " ").split())}
    return tuple(reversed(found.values()))[:MOST_WORDS]


def around(text: str, words: Sequence[str]) -> tuple[Piece, ...]:
    """Return the part of the text around the first of the words, cut into pieces."""
    pattern = re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True))) or "(?!)", re.IGNORECASE)
    flat = " ".join(text.split())
    first = pattern.search(flat)
    begin = max(0, first.start() - _BEFORE) if first else 0
    if begin:
        begin = flat.find(" ", begin, first.start() if first else None) + 1 or begin
    shown = flat[begin : begin + _LONGEST]
    pieces, at = [Piece("…")] if begin else [], 0
    for match in pattern.finditer(shown):
        pieces += [Piece(shown[at : match.start()]), Piece(match[0], is_match=True)]
        at = match.end()
    pieces.append(Piece(shown[at:] + ("…" if begin + _LONGEST < len(flat) else "")))
    return tuple(piece for piece in pieces if piece.text)
