"""Citations: the markers `[<source id>]` and `[<id>, <id>]` in a text, and the sources that they name. Pure.

A marker with an unknown id stays as it is. The stored text keeps its markers: `numbered` replaces them for display,
`joined` combines the texts of several steps.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any
from uuid import UUID

from agents_app.types import RunTranscript
from tools_app.executions.result_sources import Source

_ID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
MARKER = re.compile(rf"\[[ ]*{_ID}(?:[ ]*,[ ]*{_ID})*[ ]*\]", re.ASCII)
_ONE_ID = re.compile(_ID, re.ASCII)
_MARKUP = re.compile(r"[\\`*_\[\]<>#|~()!]")  # a title is untrusted
MOST = 300  # citations in one text


@dataclass(frozen=True)
class Citation:
    """One source that is cited at one place.

    id: the source's.
    number: from 1, the same for each mention of the source in a run.
    offset, length: the marker's position in the text, in code points.
    source_offset: the start of the quote in the source, if known.
    """

    id: UUID
    number: int
    uri: str
    title: str
    quote: str
    offset: int
    length: int
    source_offset: int | None = None

    @property
    def end(self) -> int:
        return self.offset + self.length

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "id": str(self.id)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "Citation":
        return cls(**{**stored, "id": UUID(stored["id"])})


def mentioned(texts: Iterable[str]) -> tuple[UUID, ...]:
    """Return the ids in the markers of the texts, in order, each once."""
    return tuple(dict.fromkeys(one for text in texts for _, ids in marked(text) for one in ids))


def marked(text: str) -> Iterator[tuple[str, tuple[UUID, ...]]]:
    """Yield the pieces of the text: each with the ids in it if it is a marker."""
    done = 0
    for marker in MARKER.finditer(text):
        if marker.start() > done:
            yield text[done : marker.start()], ()
        yield marker[0], tuple(map(UUID, _ONE_ID.findall(marker[0])))
        done = marker.end()
    if done < len(text):
        yield text[done:], ()


def resolve(texts: Sequence[str], sources: Mapping[UUID, Source]) -> list[tuple[Citation, ...]]:
    """Return the citations in each of a run's texts. Sources are numbered by their first mention in any of them."""
    numbers: dict[UUID, int] = {}
    return [tuple(islice(_resolve(text, sources, numbers), MOST)) for text in texts]


def numbered(text: str, citations: Sequence[Citation]) -> str:
    """Return the text with numbers in its markers: `[1]`, `[1, 2]`. Unknown ids stay."""
    names = {citation.id: str(citation.number) for citation in citations}
    return "".join(
        f"[{', '.join(dict.fromkeys(names.get(one, str(one)) for one in ids))}]" if any(map(names.get, ids)) else piece
        for piece, ids in marked(text)
    )


def unnumbered(text: str) -> str:
    """Return an unfinished text for display, with `[…]` for markers: their sources are not known yet."""
    return "".join("[…]" if ids else piece for piece, ids in marked(text))


def joined(parts: Iterable[tuple[str, Sequence[Citation]]]) -> tuple[str, tuple[Citation, ...]]:
    """Join texts, stripped, as paragraphs; return them with the citations moved to their new offsets."""
    whole, moved = "", list[Citation]()
    for text, citations in parts:
        if not text.strip():
            continue
        whole += "\n\n" if whole else ""
        shift = len(whole) - (len(text) - len(text.lstrip()))
        moved += [replace(citation, offset=citation.offset + shift) for citation in citations]
        whole += text.strip()
    return whole, tuple(moved)


def full_text(transcript: RunTranscript, cited: Mapping[int, Sequence[Citation]]) -> tuple[str, tuple[Citation, ...]]:
    """Return all texts of a run as one, with its citations.

    cited: the citations of each step.
    """
    return joined((text, cited.get(step, ())) for step, text in enumerate(transcript.texts))


def listed(citations: Iterable[Citation]) -> tuple[Citation, ...]:
    """Return each source once, ordered by number."""
    return tuple(sorted({citation.number: citation for citation in citations}.values(), key=lambda one: one.number))


def for_people(parts: Iterable[tuple[str, Sequence[Citation]]]) -> str:
    """Return the texts of a run as one Markdown text with numbered markers, and the list of sources at its end."""
    text, citations = joined(parts)
    return "\n\n".join([numbered(text, citations), as_lines(citations)]) if citations else text


def as_lines(citations: Iterable[Citation]) -> str:
    """Return the numbered sources as Markdown, one line each."""
    return "\n".join(f"[{one.number}] {_line(one)}" for one in listed(citations))


def _line(citation: Citation) -> str:
    title = _MARKUP.sub(r"\\\g<0>", " ".join(citation.title.split()))
    return citation.uri if citation.title == citation.uri else f"{title}: {citation.uri}"


def _resolve(text: str, sources: Mapping[UUID, Source], numbers: dict[UUID, int]) -> Iterator[Citation]:
    offset = 0
    for piece, ids in marked(text):
        for source in (sources[one] for one in dict.fromkeys(ids) if one in sources):
            number = numbers.setdefault(source.id, len(numbers) + 1)
            yield Citation(source.id, number, source.uri, source.title, source.quote, offset, len(piece), source.offset)
        offset += len(piece)
