"""The audit log as CSV, streamed newest first in chunks by key, so that memory does not grow with its size."""

import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from audit_app.kernel.csv_text import csv_lines
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
