"""Splitting of spans into parts within a platform's limit. Pure.

A split is at a blank line, else at the end of a line, sentence, word or grapheme; inside a link only if the link is
longer than a part. The dialect closes and reopens marks that cross a split.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise

from sessions_app.platforms.rendering.spans import Span, address_of, plain_text

Measure = Callable[[Sequence[Span]], int]

# A part is filled to this share of the limit: platforms count differently.
FILL = 0.9
# A better cut is preferred to a later one only in this last share of a part.
_LATEST = 0.5
_CUTS = (re.compile(r"\n\s*\n"), re.compile(r"\n"), re.compile(r"(?<=[.!?…。！？])[)\]\"'”’]*\s+"), re.compile(r"\s+"))
_JOINER = "\u200d"
# The joiner, the keycap, skin tones, tags, and letters of a Korean syllable spelled in parts.
_EXTENDING = re.compile("[\u200d\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\u1160-\u11ff]")
_FLAG_LETTERS = "".join(map(chr, range(0x1F1E6, 0x1F200)))


def utf16_length(text: str) -> int:
    """Return the length in UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def split(spans: Sequence[Span], limit: int, measure: Measure) -> Iterator[tuple[Span, ...]]:
    """Yield the spans in parts of at most 90 % of the limit; at least one part, perhaps an empty one.

    measure: the size of spans in the limit's unit. It must not shrink when spans get longer, and must be at least the
    number of their characters. White space at a split is dropped.
    """
    most = int(limit * FILL)
    rest = trimmed(spans)
    is_first = True
    while (length := len(plain_text(rest))) > most or measure(rest) > most:
        cut = _find_cut(_slice(rest, 0, most + 1), most, measure)
        head, rest = trimmed(_slice(rest, 0, cut)), trimmed(_slice(rest, cut, length))
        if head:
            yield head
            is_first = False
    if rest or is_first:
        yield rest


def trimmed(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Return the spans without white space at the end and without empty lines at the start."""
    text = plain_text(spans)
    end = len(text.rstrip())
    lead = re.match(r"(?:[^\S\n]*\n)*", text)
    return _slice(spans, min(lead.end() if lead else 0, end), end)


def is_grapheme_border(text: str, index: int) -> bool:
    """Return whether the index is between two graphemes (a subset of the rules of UAX #29)."""
    if index <= 0 or index >= len(text):
        return True
    before, after = text[index - 1], text[index]
    if _EXTENDING.match(after) or unicodedata.category(after) in ("Mn", "Me", "Mc"):
        return False
    if before == _JOINER or (before, after) == ("\r", "\n"):
        return False
    if after in _FLAG_LETTERS:  # two of them are a flag
        return (index - len(text[:index].rstrip(_FLAG_LETTERS))) % 2 == 0
    return True


def _find_cut(spans: Sequence[Span], most: int, measure: Measure) -> int:
    """Return the best index to split at. spans: as many as may fit, and one character more if there are more."""
    text = plain_text(spans)
    fits = bisect_right(range(1, len(text)), most, key=lambda end: measure(_slice(spans, 0, end)))
    links = _link_ranges(spans)
    for pattern in _CUTS:
        found = [
            match.end()
            for match in pattern.finditer(text, int(fits * _LATEST), min(fits + 1, len(text)))
            if match.start() <= fits and not any(start < match.start() < end for start, end in links)
        ]
        if found:
            return found[-1]
    return _hard_cut(text, max(fits, 1), links)


def _hard_cut(text: str, fits: int, links: Sequence[tuple[int, int]]) -> int:
    """Return an index before a link that does not fit, else one between graphemes."""
    for start, end in links:
        if 0 < start < fits < end:
            return start
    return next((cut for cut in range(fits, 0, -1) if is_grapheme_border(text, cut)), fits)


def _link_ranges(spans: Sequence[Span]) -> list[tuple[int, int]]:
    """Return the ranges of links, then of pieces of links, which are split only in a link longer than a part."""
    links: list[tuple[int, int]] = []
    pieces: list[tuple[int, int]] = []
    position = 0
    for address, group in groupby(spans, address_of):
        borders = list(accumulate((len(span.text) for span in group), initial=position))
        position = borders[-1]
        if address:
            links.append((borders[0], position))
            pieces += pairwise(borders)
    return [*links, *pieces]


def _slice(spans: Sequence[Span], start: int, end: int) -> tuple[Span, ...]:
    found, position = [], 0
    for span in spans:
        if position >= end:
            break
        low, high = max(start - position, 0), min(end - position, len(span.text))
        if low < high:
            found.append(Span(span.text[low:high], span.marks))
        position += len(span.text)
    return tuple(found)
