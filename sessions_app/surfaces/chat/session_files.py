"""The list of a session's files, newest first, each with its origin."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.utils import timezone

from sessions_app.surfaces.chat import labels
from tools_app import selectors as tools
from tools_app.storage import artifacts
from tools_app.storage.artifacts import ArtifactView

Writers = dict[tuple[UUID, str], UUID]


@dataclass(frozen=True)
class FileEntry:
    """A file in the list. run_id: None for an upload; call: the execution that wrote the file, if known."""

    id: UUID
    name: str
    folder: str
    size: str
    at: datetime
    ago: str
    run_id: UUID | None
    call: UUID | None


def read_files(session_id: UUID) -> tuple[FileEntry, ...]:
    """Return the files of a session. Two queries, one if there are no files."""
    rows = sorted(artifacts.list_artifacts(session_id), key=lambda row: (row.updated_at, row.path), reverse=True)
    runs = {row.run_id for row in rows if row.run_id}
    writers = tools.find_calls(labels.WRITE_ARTIFACT, "path", runs) if runs else {}
    return entries(rows, writers, timezone.now())


def entries(rows: Iterable[ArtifactView], writers: Writers, now: datetime) -> tuple[FileEntry, ...]:
    """Return the entries of the list. writers: ids of executions, by run and path."""
    return tuple(_entry(row, writers, now) for row in rows)


def _entry(row: ArtifactView, writers: Writers, now: datetime) -> FileEntry:
    folder, _, name = row.path.rpartition("/")
    return FileEntry(
        row.id,
        name,
        folder,
        labels.size(row.size_bytes),
        row.updated_at,
        labels.time_ago(row.updated_at, now),
        row.run_id,
        writers.get((row.run_id, row.path)) if row.run_id else None,
    )
