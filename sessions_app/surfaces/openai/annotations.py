"""Citations as annotations: `url_citation` objects of the OpenAI API reference. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sessions_app.conversation.citations import Citation

CitedByStep = Mapping[int, Sequence[Citation]]


def annotations_of(citations: Iterable[Citation], *, shift: int = 0) -> list[dict[str, Any]]:
    """Return the annotations of an output text. shift: the number of characters sent before the cited text."""
    return [
        {
            "type": "url_citation",
            "start_index": citation.offset + shift,
            "end_index": citation.end + shift,
            "url": citation.uri,
            "title": citation.title,
        }
        for citation in citations
    ]


def completion_annotations(citations: Iterable[Citation]) -> list[dict[str, Any]]:
    """Return the annotations of a chat completion's message, which nest the fields one level deeper."""
    flat = annotations_of(citations)
    return [{"type": annotation.pop("type"), "url_citation": annotation} for annotation in flat]
