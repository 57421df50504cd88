"""The audit log as CSV, streamed newest first in chunks by key, so that memory does not grow with its size."""

import csv
import io
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from audit_app.kernel.database import in_db
from audit_app.models import AuditEntry

COLUMNS = (
    "at",
    "action",
    "actor",
    "agent_id",
    "session_id",
    "session_key",
    "request_id",
    "details",
    "id",
    "number",
    "hash",
)
_CHUNK = 1000
# A spreadsheet treats a cell that begins with one of these as a formula, including the full-width forms.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def safe_cell(value: object) -> str:
    """Return the value as the text of one cell, with a leading `'` where a spreadsheet would run it as a formula."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA_STARTS) else text


def csv_lines(rows: Iterable[Sequence[object]]) -> str:
    """Return the rows as CSV text, with all cells safe."""
    buffer = io.StringIO()
    csv.writer(buffer).writerows([safe_cell(value) for value in row] for row in rows)
    return buffer.getvalue()


async def stream_csv(entries: QuerySet[AuditEntry]) -> AsyncIterator[str]:
    """Yield a header line, then the entries, newest first. A long export holds neither a thread nor a connection."""
    yield csv_lines([COLUMNS])
    last: UUID | None = None
    while True:
        chunk = await in_db(_chunk_before, entries, last)
        if not chunk:
            return
        yield csv_lines(_cells(entry) for entry in chunk)
        last = chunk[-1].id


def _chunk_before(entries: QuerySet[AuditEntry], last: UUID | None) -> list[AuditEntry]:
    rows = entries.order_by("-id")
    return list((rows.filter(id__lt=last) if last else rows)[:_CHUNK])


def _cells(entry: AuditEntry) -> list[Any]:
    details = json.dumps(entry.details, ensure_ascii=False, separators=(",", ":"))
    values = {"at": entry.at.isoformat(), "details": details}
    return [values.get(column, getattr(entry, column)) for column in COLUMNS]
