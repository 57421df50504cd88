"""Words of texts, as the index of the full-text search stores them. Pure.

The same on every database: without case, width and accents (`Größe` is `grosse`). Scripts without spaces, such as
Chinese, Japanese and Thai, give one word for each character, which a query finds as a sequence. A name of a program is
split at its underscores (`memory_store`), and found by the parts of its capitals too (`memoryStore`).
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

# Characters of one text that are indexed, and of one word.
MOST_CHARACTERS, _LONGEST = 100_000, 64
# Kana, ideographs, and the scripts from Thai to Khmer.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_ACCENTS = re.compile(r"[\u0300-\u036f]+")
_RAW = re.compile(r"(?:[^\W_]|[\u0300-\u036f])+")
_ASCII = re.compile(r"[a-z0-9]+")
_WORD = re.compile(f"[{_UNSPACED}]|[^\\W_{_UNSPACED}]+")
_HAS_PARTS = re.compile(r"[a-z][A-Z]")
_CAPITALISED = re.compile(r"[A-Za-z0-9]*[a-z][A-Z][A-Za-z0-9]*")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@dataclass(frozen=True)
class Span:
    """A word with the place in the text that it comes from."""

    word: str
    start: int
    end: int


def words(text: str) -> list[str]:
    """Return the words of a text, in order."""
    if text.isascii():
        return [word[:_LONGEST] for word in _ASCII.findall(text.lower())]
    return [span.word for span in spans(text)]


def spans(text: str) -> Iterator[Span]:
    """Yield the words of a text with their places."""
    for raw in _RAW.finditer(text):
        folded = fold(raw[0])
        keeps_places = len(folded) == len(raw[0])
        for found in _WORD.finditer(folded):
            start, end = found.span() if keeps_places else (0, len(raw[0]))
            yield Span(found[0][:_LONGEST], raw.start() + start, raw.start() + end)


def indexed_words(text: str) -> list[str]:
    """Return the words under which a text is found: its words, then the parts of names such as `sendMessage`."""
    text = text[:MOST_CHARACTERS]
    found = words(text)
    if _HAS_PARTS.search(text):
        found += [part.lower() for name in _CAPITALISED.findall(text) for part in _PARTS.findall(name)]
    return found


def is_unspaced(word: str) -> bool:
    """Return whether the word is one character of a script without spaces."""
    return len(word) == 1 and re.match(f"[{_UNSPACED}]", word) is not None


def fold(raw: str) -> str:
    """Return the text without case, width and accents."""
    if raw.isascii():
        return raw.lower()
    decomposed = unicodedata.normalize("NFKD", raw.casefold())
    return unicodedata.normalize("NFC", _ACCENTS.sub("", decomposed)).casefold()
