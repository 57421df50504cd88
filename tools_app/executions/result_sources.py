"""Sources of a tool's result, with ids by which a model can cite them. Pure.

A result declares them as a top-level `sources: [{"uri", "title", "quote", "offset"?}]`. Each receives an id, `cite`,
derived from its content, so that the same passage always has the same id and no state is needed.
"""

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from audit_app.kernel.canonical_json import canonical_json

KEY, ID = "sources", "cite"
MAX_SOURCES = 100  # of one result
MAX_URI, MAX_TITLE, MAX_QUOTE = 2_048, 300, 1_000
_IDS = UUID("6f0d3f1c-5d0e-4c8e-9a53-7d1a2b6c40e9")


@dataclass(frozen=True)
class Source:
    """A passage. offset: start of the quote in its document, in code points, if known."""

    id: UUID
    uri: str
    title: str
    quote: str
    offset: int | None = None


def stamped(value: Any) -> Any:
    """Return the value of a result with an id on each of its sources. Malformed sources are left unchanged."""
    if not isinstance(value, dict) or not isinstance(value.get(KEY), list):
        return value
    listed = value[KEY]
    return {**value, KEY: [*map(_stamped, listed[:MAX_SOURCES]), *listed[MAX_SOURCES:]]}


def read(output: str | None) -> tuple[Source, ...]:
    """Return the sources of a stored result (its JSON text), in order; empty if it has none or is not JSON."""
    try:
        value = json.loads(output or "null")
    except (ValueError, RecursionError):
        return ()
    listed = value.get(KEY) if isinstance(value, dict) else None
    found = [_read(item) for item in listed[:MAX_SOURCES]] if isinstance(listed, list) else []
    return tuple(source for source in found if source)


def _stamped(item: Any) -> Any:
    if not _is_source(item):
        return item
    content = [item["uri"], item.get("quote"), item.get("offset")]
    return {**item, ID: str(uuid5(_IDS, canonical_json(content).encode(errors="replace").decode()))}


def _is_source(item: Any) -> bool:
    """Return whether the item is well-formed, so that it can be cited."""
    if not isinstance(item, dict) or not isinstance(item.get("uri"), str) or not 0 < len(item["uri"]) <= MAX_URI:
        return False
    if not all(isinstance(item.get(key), str | None) for key in ("title", "quote")):
        return False
    offset = item.get("offset")
    return offset is None or (isinstance(offset, int) and not isinstance(offset, bool) and 0 <= offset < 2**31)


def _read(item: Any) -> Source | None:
    if not _is_source(item) or not isinstance(item.get(ID), str):
        return None
    try:
        source_id = UUID(item[ID])
    except ValueError:
        return None
    title, quote = item.get("title") or item["uri"], item.get("quote") or ""
    return Source(source_id, item["uri"], title[:MAX_TITLE], quote[:MAX_QUOTE], item.get("offset"))
