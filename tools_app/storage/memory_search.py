"""Ranks short texts by the words of a query (BM25), the same on every database. Pure."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_WORD = re.compile(r"\w+")
_MIN_PREFIX = 4
_PREFIX_WORTH = 0.5  # of a word with a common prefix: `cook` and `cooking`
_KEY_WORTH = 2.0
_SATURATION = 1.2  # BM25's k1
_LENGTH_WEIGHT = 0.5  # BM25's b


@dataclass(frozen=True)
class Document:
    """A text to rank. key: a short name, whose words count double."""

    key: str
    text: str


def rank(documents: Sequence[Document], query: str) -> list[int]:
    """Return the indexes of the matching documents, best first; equal ones keep their order."""
    wanted = set(words(query))
    bags = [_bag(document) for document in documents]
    usual = sum(map(sum, (bag.values() for bag in bags))) / max(len(bags), 1) or 1.0
    worth = {word: _rarity(word, bags) for word in wanted}
    scores = [_score(bag, worth, usual) for bag in bags]
    return sorted((at for at, score in enumerate(scores) if score > 0), key=lambda at: -scores[at])


def words(text: str) -> list[str]:
    """Return the words of a text, without case, width and accents."""
    folded = unicodedata.normalize("NFKD", text.casefold())
    return _WORD.findall("".join(sign for sign in folded if not unicodedata.combining(sign)))


def _bag(document: Document) -> dict[str, float]:
    bag: Counter[str] = Counter(words(document.text))
    weighed = {word: float(count) for word, count in bag.items()}
    for word in words(document.key):
        weighed[word] = weighed.get(word, 0.0) + _KEY_WORTH
    return weighed


def _occurrences(bag: dict[str, float], word: str) -> float:
    found = bag.get(word, 0.0)
    if found or len(word) < _MIN_PREFIX:
        return found
    alike = (
        count
        for other, count in bag.items()
        if len(other) >= _MIN_PREFIX and (other.startswith(word) or word.startswith(other))
    )
    return _PREFIX_WORTH * max(alike, default=0.0)


def _rarity(word: str, bags: Sequence[dict[str, float]]) -> float:
    having = sum(1 for bag in bags if _occurrences(bag, word))
    return math.log(1 + (len(bags) - having + 0.5) / (having + 0.5))


def _score(bag: dict[str, float], worth: dict[str, float], usual: float) -> float:
    length = 1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * sum(bag.values()) / usual
    score = 0.0
    for word, rarity in worth.items():
        if count := _occurrences(bag, word):
            score += rarity * count * (_SATURATION + 1) / (count + _SATURATION * length)
    return score
