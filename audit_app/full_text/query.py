"""Queries of the full-text search: words, "phrases" and -exclusions. Pure.

Nothing that a user types is an error: signs that mean nothing are left out.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from audit_app.full_text.words import is_unspaced, spans, words

MOST_TERMS, LONGEST_QUERY = 8, 500
_MOST_OF_TEXT = 24  # words of a message that looks for memories
_MIN_PREFIX = 3  # characters: a shorter word is found as a whole, or it would match half of the index
_MIN_STEM, _ENDING = 4, 3
_PART = re.compile(r'(-?)"([^"]*)"?|(\S+)')


@dataclass(frozen=True)
class Term:
    """Consecutive words.

    is_prefix: the last one may go on.
    is_excluded: texts with it do not match.
    """

    words: tuple[str, ...]
    is_prefix: bool = False
    is_excluded: bool = False


@dataclass(frozen=True)
class Query:
    """A parsed query. matches_any: one of the terms suffices. Without terms that are not excluded, nothing matches."""

    terms: tuple[Term, ...]
    matches_any: bool = False

    @property
    def wanted(self) -> tuple[Term, ...]:
        return tuple(term for term in self.terms if not term.is_excluded)

    @property
    def excluded(self) -> tuple[Term, ...]:
        return tuple(term for term in self.terms if term.is_excluded)


def parse(text: str) -> Query:
    """Return the query that a user has typed. All of its terms must match; the first MOST_TERMS count."""
    found = dict.fromkeys(filter(None, map(_term, _PART.finditer(text[:LONGEST_QUERY]))))
    return Query(tuple(found)[:MOST_TERMS])


def like(text: str) -> Query:
    """Return a query for texts that have a word of this one, or one with the same beginning."""
    distinct = dict.fromkeys(words(text[:LONGEST_QUERY]))
    long = [word for word in distinct if len(word) >= _MIN_PREFIX or is_unspaced(word) or word.isdecimal()]
    return Query(tuple(map(_stem, (long or list(distinct))[:_MOST_OF_TEXT])), matches_any=True)


def find_matches(text: str, query: Query) -> list[tuple[int, int]]:
    """Return the places (start, end) of the query's words in the text, in order, without overlaps."""
    found = list(spans(text))
    names = [span.word for span in found]
    places = {
        (found[at].start, found[at + len(term.words) - 1].end)
        for term in query.wanted
        for at in range(len(names))
        if _is_at(term, names, at)
    }
    merged: list[tuple[int, int]] = []
    for start, end in sorted(places):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _term(part: re.Match[str]) -> Term | None:
    is_phrase = part[2] is not None
    raw = part[2] if is_phrase else part[3]
    is_excluded = part[1] == "-" if is_phrase else raw.startswith("-") and len(raw) > 1
    found = tuple(words(raw))
    if not found:
        return None
    can_go_on = len(found[-1]) >= _MIN_PREFIX and not is_unspaced(found[-1])
    return Term(found, can_go_on and not (is_phrase or is_excluded), is_excluded)


def _stem(word: str) -> Term:
    stem = word[: max(_MIN_STEM, len(word) - _ENDING)]
    return Term((stem,), is_prefix=len(stem) >= _MIN_PREFIX)


def _is_at(term: Term, names: Sequence[str], at: int) -> bool:
    last = at + len(term.words) - 1
    if last >= len(names) or tuple(names[at:last]) != term.words[:-1]:
        return False
    return names[last].startswith(term.words[-1]) if term.is_prefix else names[last] == term.words[-1]
