"""Citations as this protocol's chunk citations. Pure.

`chunk_id` is the source's id, which the markers in the text contain; `materialized_path` is the source's address.
"""

from collections.abc import Iterable
from typing import Any

from sessions_app.conversation.citations import Citation


def chunk_citations(citations: Iterable[Citation]) -> list[dict[str, Any]]:
    """Return a citation per marker, in the order of the text."""
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
