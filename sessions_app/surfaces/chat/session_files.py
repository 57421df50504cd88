"""The list of a session's files, newest first, each with its origin."""

from dataclasses import dataclass
from uuid import UUID

from django.utils import timezone

from sessions_app.surfaces.chat import labels
from tools_app import selectors as tools
from tools_app.storage import artifacts
from tools_app.storage.artifacts import ArtifactView


@dataclass(frozen=True)
class FileEntry:
    """A file in the list. call: the execution that wrote the file, if known."""

    artifact: ArtifactView
    name: str
    folder: str
    size: str
    ago: str
    call: UUID | None


def read_files(session_id: UUID) -> tuple[FileEntry, ...]:
    """Return the files of a session. Two queries, one if there are no files."""
    rows = sorted(artifacts.list_artifacts(session_id), key=lambda row: (row.updated_at, row.path), reverse=True)
    runs = {row.run_id for row in rows if row.run_id}
    writers = tools.find_calls(labels.WRITE_ARTIFACT, "path", runs) if runs else {}
    now = timezone.now()
    return tuple(
        FileEntry(
            row,
            row.path.rpartition("/")[2],
            row.path.rpartition("/")[0],
            labels.size(row.size_bytes),
            labels.time_ago(row.updated_at, now),
            writers.get((row.run_id, row.path)) if row.run_id else None,
        )
        for row in rows
    )
