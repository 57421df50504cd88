"""Citations as this protocol's annotations: spans of a text, each with the address and title of what it cites. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sessions_app.conversation.citations import Citation

CitedByStep = Mapping[int, Sequence[Citation]]


def annotations_of(citations: Iterable[Citation], *, shift: int = 0) -> list[dict[str, Any]]:
    """Of a response's text. shift: how much further on the cited text stands in what is shown."""
    return [
        {
            "type": "url_citation",
            "start_index": one.offset + shift,
            "end_index": one.end + shift,
            "url": one.uri,
            "title": one.title,
        }
        for one in citations
    ]


def completion_annotations(citations: Iterable[Citation]) -> list[dict[str, Any]]:
    """Of a chat completion's message, where the fields stand one level deeper."""
    flat = annotations_of(citations)
    return [{"type": one.pop("type"), "url_citation": one} for one in flat]
