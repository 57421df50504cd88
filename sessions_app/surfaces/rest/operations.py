"""The forms of this surface's operations: answers in the envelope, and lists in pages."""

from typing import Any

from sessions_app.surfaces.base.openapi.fields import answer_schema
from sessions_app.surfaces.base.openapi.operations import Answer, Operation
from sessions_app.surfaces.base.openapi.schemas import (
    INTEGER,
    NULL,
    OBJECT,
    TEXT,
    Schema,
    about,
    just,
    nullable,
    record,
    ref,
)
from sessions_app.surfaces.rest.envelope import PageQuery

CANCELLED = record({"cancelled": INTEGER})
_CURSOR = record({"nextCursor": nullable(about(TEXT, "Of the next page; null at the end."))})


def envelope(data: Any, meta: Schema | None = None) -> Schema:
    """Return the schema of a successful answer. data: as for `answer_schema`; None for null."""
    meta = nullable(OBJECT) if meta is None else meta
    shown = NULL if data is None else answer_schema(data)
    return record({"success": just(True), "data": shown, "error": NULL, "meta": meta})


def paged(summary: str, item: Any, query: Any = PageQuery, **more: Any) -> Operation:
    """Return the operation that lists items in numbered pages. more: as for `Operation`."""
    page = Answer("One page; `meta` counts the items.", envelope([item], ref("Page")))
    return Operation(summary, query=query, answers={200: page}, **more)


def scrolled(summary: str, items: str, item: Any, query: Any) -> Operation:
    """Return the operation that lists items in pages with cursors. items: name of the items."""
    page = Answer(f"One page of {items}.", envelope([item], _CURSOR))
    return Operation(summary, query=query, answers={200: page})
