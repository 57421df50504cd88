"""Citations in the shapes of this protocol. Pure.

A source is a chunk to it, by the id that the markers in the text name; where it came from is its document's path.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from sessions_app.conversation.citations import Citation


def chunk_citations(citations: Iterable[Citation]) -> list[dict[str, Any]]:
    """One for each mention, in the order of the text."""
    return [
        {
            "chunk_id": str(citation.id),
            "quote": citation.quote,
            "start_char": citation.source_offset or 0,
            "length": len(citation.quote),
            "document_name": citation.title,
            "materialized_path": citation.uri,
        }
        for citation in citations
    ]


def citation_payload(payload: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of the payload of a `citations.added`."""
    return chunk_citations(Citation.from_dict(stored) for stored in payload["citations"])
