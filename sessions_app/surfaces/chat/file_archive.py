"""All files of a session as a ZIP archive, made while it is sent: one file at a time is in memory."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from io import RawIOBase
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from audit_app.kernel.database import in_db
from audit_app.kernel.errors import NotFound
from tools_app.storage import artifact_paths, artifacts
from tools_app.storage.artifacts import ArtifactView


@dataclass(frozen=True)
class Entry:
    """A file of the archive. name: path in it."""

    name: str
    artifact: ArtifactView


class _Pipe(RawIOBase):
    """A file that is only written, and read away meanwhile."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


async def stream_archive(entries: Sequence[Entry]) -> AsyncIterator[bytes]:
    """Yield the archive. A file that is deleted meanwhile is left out."""
    pipe = _Pipe()
    with ZipFile(pipe, "w", ZIP_DEFLATED) as archive:
        for entry in entries:
            await in_db(_add, archive, entry)
            yield pipe.take()
    yield pipe.take()


def _add(archive: ZipFile, entry: Entry) -> None:
    try:
        artifact, data = artifacts.read_artifact(entry.artifact.session_id, entry.artifact.path)
    except NotFound:
        return
    info = ZipInfo(entry.name, artifact.updated_at.timetuple()[:6])
    info.compress_type = ZIP_DEFLATED
    archive.writestr(info, data)


def entries_of(files: Sequence[tuple[str, ArtifactView]]) -> list[Entry]:
    """Return the entries of files with their paths in the archive. Equal paths are numbered."""
    taken: set[str] = set()
    found = []
    for wanted, artifact in files:
        name, number = wanted, 1
        while artifact_paths.folded(name) in taken:
            number += 1
            name = artifact_paths.numbered(wanted, number)
        taken.add(artifact_paths.folded(name))
        found.append(Entry(name, artifact))
    return found
