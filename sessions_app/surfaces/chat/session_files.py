"""The list of a session's files, newest first, each with its origin."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from django.utils import timezone

from agents_app import selectors as agents
from agents_app.types.child_runs import title_of
from sessions_app.surfaces.chat import labels
from tools_app import selectors as tools
from tools_app.storage import artifact_paths, artifacts
from tools_app.storage.artifact_paths import child_of
from tools_app.storage.artifacts import ArtifactView


@dataclass(frozen=True)
class FileEntry:
    """A file in the list.

    folder: its folder; of a file of a workstream, the name of that first.
    call: the execution that wrote the file, if known.
    """

    artifact: ArtifactView
    name: str
    folder: str
    size: str
    ago: str
    call: UUID | None


def read_files(session_id: UUID) -> tuple[FileEntry, ...]:
    """Return the files of a session. Two queries, one if there are no files, up to two more for workstreams."""
    rows = sorted(artifacts.list_artifacts(session_id), key=lambda row: (row.updated_at, row.path), reverse=True)
    runs = {row.run_id for row in rows if row.run_id}
    writers = tools.find_calls(labels.WRITE_ARTIFACT, "path", runs) if runs else {}
    names = names_of_children(session_id, rows)
    now = timezone.now()
    return tuple(
        FileEntry(
            row,
            row.path.rpartition("/")[2],
            shown_folder(row.path, names),
            labels.size(row.size_bytes),
            labels.time_ago(row.updated_at, now),
            writers.get((row.run_id, _called(row.path))) if row.run_id else None,
        )
        for row in rows
    )


def names_of_children(session_id: UUID, rows: Collection[ArtifactView]) -> dict[UUID, str]:
    """Return the names for people of the workstreams that have written files. No query without such files."""
    children = {found[0] for row in rows if (found := child_of(row.path))}
    views = agents.list_workstreams(session_id, children) if children else ()
    return {view.launch_id: title_of(view.path) for view in views}


def shown_folder(path: str, names: Mapping[UUID, str]) -> str:
    """Return the folder of a file as it is shown. names: of workstreams by run."""
    child = child_of(path)
    if child is None or child[0] not in names:
        return path.rpartition("/")[0]
    below = child[1].rpartition("/")[0]
    return f"{names[child[0]]} › {below}" if below else names[child[0]]


def archive_path(path: str, names: Mapping[UUID, str]) -> str:
    """Return the path of a file in an archive: that of a workstream is in a folder of its name."""
    child = child_of(path)
    if child is None or child[0] not in names:
        return path
    return f"workstreams/{artifact_paths.usable_name(names[child[0]]) or child[0]}/{child[1]}"


def _called(path: str) -> str:
    """Return the path by which its writer calls a file."""
    child = child_of(path)
    return child[1] if child else path
