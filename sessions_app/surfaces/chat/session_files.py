"""The list of a session's files, newest first, each with its origin."""

from dataclasses import dataclass
from uuid import UUID

from django.utils import timezone

from agents_app import selectors as agents
from agents_app.types.child_runs import title_of
from sessions_app.surfaces.chat import labels
from tools_app import selectors as tools
from tools_app.storage import artifacts
from tools_app.storage.artifact_paths import child_of
from tools_app.storage.artifacts import ArtifactView


@dataclass(frozen=True)
class FileEntry:
    """A file in the list.

    folder: of a workstream's file, the name of the workstream.
    call: the execution that wrote the file, if known.
    """

    artifact: ArtifactView
    name: str
    folder: str
    size: str
    ago: str
    call: UUID | None


def read_files(session_id: UUID) -> tuple[FileEntry, ...]:
    """Return the files of a session. Two queries, one if there are no files; up to two more for workstreams."""
    rows = sorted(artifacts.list_artifacts(session_id), key=lambda row: (row.updated_at, row.path), reverse=True)
    runs = {row.run_id for row in rows if row.run_id}
    writers = tools.find_calls(labels.WRITE_ARTIFACT, "path", runs) if runs else {}
    children = {row.path: child_of(row.path) for row in rows}
    child_ids = {found[0] for found in children.values() if found}
    views = agents.list_workstreams(session_id, child_ids) if child_ids else ()
    names = {view.launch_id: title_of(view.path) for view in views}
    now = timezone.now()
    return tuple(
        FileEntry(
            row,
            row.path.rpartition("/")[2],
            _folder(row.path, children[row.path], names),
            labels.size(row.size_bytes),
            labels.time_ago(row.updated_at, now),
            writers.get((row.run_id, row.path)) if row.run_id else None,
        )
        for row in rows
    )


def _folder(path: str, child: tuple[UUID, str] | None, names: dict[UUID, str]) -> str:
    """Return the folder of a file for people. child: the workstream that wrote it, with its own path."""
    if child is None or child[0] not in names:
        return path.rpartition("/")[0]
    below = child[1].rpartition("/")[0]
    return f"{names[child[0]]} › {below}" if below else names[child[0]]
