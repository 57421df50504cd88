"""Excerpts of texts around the words that a query has found. Pure."""

from dataclasses import dataclass

from audit_app.full_text.query import Query, find_matches
from audit_app.full_text.words import MOST_CHARACTERS

_BEFORE, _LONGEST = 30, 110
_BEGINNING = 3_000  # characters, which are searched alone at first


@dataclass(frozen=True)
class Piece:
    """A part of an excerpt. is_match: it is what was searched."""

    text: str
    is_match: bool = False


def around(text: str, query: Query, *, longest: int = _LONGEST) -> tuple[Piece, ...]:
    """Return the part of the text around the first match, cut into pieces. longest: characters."""
    flat = " ".join(text[:MOST_CHARACTERS].split())
    matches = find_matches(flat[:_BEGINNING], query) or find_matches(flat, query)
    begin = max(0, matches[0][0] - _BEFORE) if matches else 0
    if begin:
        begin = flat.find(" ", begin, matches[0][0]) + 1 or begin
    end = begin + longest
    pieces, at = [Piece("…")] if begin else [], begin
    for start, stop in matches:
        if stop <= end:
            pieces += [Piece(flat[at:start]), Piece(flat[start:stop], is_match=True)]
            at = stop
    pieces.append(Piece(flat[at:end] + ("…" if end < len(flat) else "")))
    return tuple(piece for piece in pieces if piece.text)


def plain(pieces: tuple[Piece, ...]) -> str:
    """Return an excerpt as text."""
    return "".join(piece.text for piece in pieces)
