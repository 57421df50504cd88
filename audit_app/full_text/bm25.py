"""Ranks texts that a query has found (BM25), the same on every database. Pure.

Works on folded texts, because a search ranks hundreds of them: their words are read once for all terms of one word, and
once more for each phrase.
"""

import math
import re
from collections.abc import Iterator, Sequence

from audit_app.full_text.query import Query, Term
from audit_app.full_text.words import fold, is_unspaced

_PREFIX_WORTH = 0.5  # of a word that goes on: `cook` and `cooking`
_KEY = 3  # characters by which words are looked up
_WORD = re.compile(r"\w+")
_SATURATION = 1.2  # BM25's k1
_LENGTH_WEIGHT = 0.5  # BM25's b


def rank(texts: Sequence[str], query: Query) -> list[int]:
    """Return the indexes of the texts with a term of the query, best first; equal ones keep their order."""
    found = scores(texts, query)
    return sorted((at for at, score in enumerate(found) if score > 0), key=lambda at: -found[at])


def scores(texts: Sequence[str], query: Query) -> list[float]:
    """Return the score of each text: 0 without a term of the query. A rare term counts more than a frequent one."""
    folded = [fold(text).replace("_", " ") for text in texts]
    usual = sum(map(len, folded)) / max(len(folded), 1) or 1.0
    lengths = [1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * len(text) / usual for text in folded]
    totals = [0.0] * len(folded)
    for counts in _counts(folded, query.wanted):
        having = sum(1 for count in counts if count)
        rarity = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        for at, count in enumerate(counts):
            if count:
                totals[at] += rarity * count * (_SATURATION + 1) / (count + _SATURATION * lengths[at])
    return totals


def _counts(folded: Sequence[str], terms: Sequence[Term]) -> Iterator[Sequence[float]]:
    """Yield how often each text has each term, in any order of the terms."""
    words = [term for term in terms if _is_word(term)]
    yield from _word_counts(folded, words) if words else ()
    phrases = [term for term in terms if not _is_word(term)]
    for pattern in map(_pattern, phrases):
        yield [sum(_PREFIX_WORTH if ending else 1.0 for ending in pattern.findall(text)) for text in folded]


def _word_counts(folded: Sequence[str], words: Sequence[Term]) -> list[list[float]]:
    """Return the counts of terms of one word, by reading each text once."""
    counts = [[0.0] * len(folded) for _ in words]
    by_beginning: dict[str, list[int]] = {}
    for place, term in enumerate(words):
        by_beginning.setdefault(term.words[0][:_KEY], []).append(place)
    worth: dict[str, list[tuple[int, float]]] = {}
    for at, text in enumerate(folded):
        for word in _WORD.findall(text):
            if (group := by_beginning.get(word[:_KEY])) is None:
                continue
            found = worth.get(word)
            if found is None:
                found = worth[word] = [(place, value) for place in group if (value := _worth(word, words[place]))]
            for place, value in found:
                counts[place][at] += value
    return counts


def _is_word(term: Term) -> bool:
    """Return whether the words of a text decide whether it has the term, each by its first _KEY characters."""
    word = term.words[0]
    return len(term.words) == 1 and not is_unspaced(word) and (len(word) >= _KEY or not term.is_prefix)


def _worth(word: str, term: Term) -> float:
    wanted = term.words[0]
    return 1.0 if word == wanted else _PREFIX_WORTH if term.is_prefix and word.startswith(wanted) else 0.0


def _pattern(term: Term) -> re.Pattern[str]:
    """Return an expression for the term, whose group is the rest of its last word."""
    begin, end = ("" if is_unspaced(term.words[at]) else r"\b" for at in (0, -1))
    ending = r"(\w*)" if term.is_prefix else f"(){end}"
    return re.compile(begin + r"\W*".join(map(re.escape, term.words)) + ending)
