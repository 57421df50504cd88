"""Citations as our own protocols show them: camelCase, the marker's place, the source. Pure."""

from collections.abc import Iterable
from typing import Any

from sessions_app.conversation.citations import Citation


def shown_citations(citations: Iterable[Citation]) -> list[dict[str, Any]]:
    """offset, length: of the marker in the text, in code points; sourceOffset: of the quote in its source, or null."""
    return [
        {
            "id": str(one.id),
            "number": one.number,
            "uri": one.uri,
            "title": one.title,
            "quote": one.quote,
            "offset": one.offset,
            "length": one.length,
            "sourceOffset": one.source_offset,
        }
        for one in citations
    ]
