"""Files of a session: a row each, with the content in the store under `artifacts/<session>/<blob>`.

Content is written completely before its row, under a new name each time, and removed after the row refers to another
one: a crash leaves an orphaned file, never a row without content.
"""

import mimetypes
import re
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

from django.db import IntegrityError, transaction
from django.db.models import QuerySet, Sum
from django.utils import timezone

from audit_app.kernel.advisory_lock import serialize
from audit_app.kernel.after_commit import after_commit
from audit_app.kernel.errors import AppError, Conflict, InvalidInput, found
from tools_app import conf
from tools_app.models import Artifact
from tools_app.storage import artifact_paths, file_store
from tools_app.types import view_of

MAX_FILES = 500
_ORPHAN_SECONDS = 3600
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,60}")
_UNKNOWN_TYPE = "application/octet-stream"


@dataclass(frozen=True)
class ArtifactView:
    """A file as other apps see it.

    sha256: sha256 of its content, in hexadecimal.
    origins: see `policy.taint`.
    """

    id: UUID
    session_id: UUID
    run_id: UUID | None
    path: str
    media_type: str
    size_bytes: int
    sha256: str
    updated_at: datetime
    origins: tuple[str, ...] = ()


@dataclass(frozen=True)
class Writer:
    """The session that gets a file, and the run and the agent that write it; none for a user.

    origins: origins of what the run has read from outside. The file of a user is an origin itself.
    """

    session_id: UUID
    run_id: UUID | None = None
    agent_id: str = ""
    origins: tuple[str, ...] = ()


@dataclass(frozen=True)
class StoredFile:
    """A file of the store that is to become an artifact. sha256: of its content, in hexadecimal."""

    name: str
    media_type: str
    size_bytes: int
    sha256: str


def write_artifact(
    writer: Writer,
    path: str,
    data: bytes,
    *,
    media_type: str = "",
    expected_sha256: str | None = None,
    keep_existing: bool = False,
) -> ArtifactView:
    """Store a file, replacing the one of this path. Owns its transaction. Idempotent.

    expected_sha256: sha256 of the current content, for optimistic updates; None to skip the check.
    keep_existing: keep another file of this path, and name this one `name (2)`.
    Raises Conflict (artifact_changed) if the content is not the expected one, and InvalidInput: bad_path, path_taken
    (by a path that differs in case only), bad_media_type, artifact_too_large, quota_exceeded.
    """
    path, blob = _checked(path), uuid4()
    fields = _fields(writer, path, blob, media_type, len(data), sha256(data).hexdigest())
    file_store.current().write(_name(writer.session_id, blob), data)
    view = _store_blob(writer.session_id, path, fields, expected_sha256, keep_existing)
    _remove_orphans(writer.session_id)
    return view


def add_artifact(writer: Writer, path: str, file: StoredFile) -> ArtifactView:
    """Store a file that is in the store already, without loading it, in the caller's transaction.

    Another file of this path is kept, and this one named `name (2)`. The caller deletes `file.name` after commit.
    Raises as `write_artifact`, and NotFound if the file is not there.
    """
    path, blob = _checked(path), uuid4()
    fields = _fields(writer, path, blob, file.media_type, file.size_bytes, file.sha256)
    file_store.current().copy(file.name, _name(writer.session_id, blob))
    return _store_blob(writer.session_id, path, fields, None, True)


def read_artifact(session_id: UUID, path: str, *, child_id: UUID | None = None) -> tuple[ArtifactView, bytes]:
    """Return a file and its content. child_id: child run that reads. Raises InvalidInput (bad_path), NotFound."""
    row = _row(session_id, path, child_id)
    return _view(row), file_store.current().read(_name(session_id, row.blob))


def find_artifact(session_id: UUID, path: str) -> ArtifactView:
    """Return the session's file of this path. Raises InvalidInput (bad_path), NotFound."""
    return _view(_row(session_id, path))


def get_artifact(artifact_id: UUID) -> ArtifactView:
    """Return a file, of any session. Raises NotFound."""
    return _view(found(Artifact.objects.filter(pk=artifact_id).first(), "There is no such file."))


def list_artifacts(session_id: UUID) -> tuple[ArtifactView, ...]:
    """Return the session's files, by path."""
    return tuple(_view(row) for row in Artifact.objects.filter(session_id=session_id).order_by("path"))


def list_artifacts_of(session_ids: QuerySet[Any, UUID], *, offset: int, limit: int) -> tuple[ArtifactView, ...]:
    """Return files of these sessions, the last changed first."""
    rows = Artifact.objects.filter(session_id__in=session_ids).order_by("-updated_at", "-pk")
    return tuple(_view(row) for row in rows[offset : offset + limit])


def list_paths_of(session_id: UUID, run_ids: Collection[UUID]) -> dict[UUID, list[str]]:
    """Return the paths of the session's files that these runs have written, by run. One query."""
    paths: dict[UUID, list[str]] = {}
    rows = Artifact.objects.filter(session_id=session_id, run_id__in=run_ids).order_by("path")
    for run_id, path in rows.values_list("run_id", "path"):
        if run_id:  # null in the rows of users
            paths.setdefault(run_id, []).append(path)
    return paths


def count_artifacts(session_id: UUID) -> int:
    return Artifact.objects.filter(session_id=session_id).count()


def delete_artifact(session_id: UUID, path: str) -> bool:
    """Delete a file. Owns its transaction. Returns whether it existed. Raises InvalidInput (bad_path)."""
    with transaction.atomic():
        row = Artifact.objects.filter(session_id=session_id, path=_checked(path)).first()
        if row is None:
            return False
        row.delete()
        after_commit(_discard, session_id, row.blob)
        return True


def merge_artifacts(session_id: UUID, run_id: UUID) -> None:
    """Move the files that a child run has written to `files/{run id}/`, in the caller's transaction. Idempotent.

    Another file of such a path is kept, and the child's named `name (2)`.
    """
    for row in Artifact.objects.filter(session_id=session_id, run_id=run_id):
        merged = path = artifact_paths.merged(row.path, run_id)
        if path == row.path:
            continue
        serialize(f"files of {session_id}")
        others, number = Artifact.objects.filter(session_id=session_id), 1
        while others.filter(folded_path=artifact_paths.folded(path)).exists():
            number += 1
            path = artifact_paths.numbered(merged, number)
        Artifact.objects.filter(pk=row.pk).update(path=path, folded_path=artifact_paths.folded(path))


def _fields(writer: Writer, path: str, blob: UUID, media_type: str, size: int, digest: str) -> dict[str, Any]:
    """Return the fields of a file's row. Raises InvalidInput (artifact_too_large, bad_media_type)."""
    most, _ = conf.artifact_limits()
    if size > most:
        raise InvalidInput(f"The file has {size:,} bytes; at most {most:,} are allowed.", code="artifact_too_large")
    origins = writer.origins if writer.run_id else (*writer.origins, f"file:{path}")
    return {
        "run_id": writer.run_id,
        "agent_id": writer.agent_id,
        "blob": blob,
        "size_bytes": size,
        "media_type": _media_type(media_type, path),
        "sha256": digest,
        "origins": "\n".join(dict.fromkeys(origins)),
        "updated_at": timezone.now(),
    }


def _store_blob(
    session_id: UUID, path: str, fields: dict[str, Any], expected: str | None, keep_existing: bool
) -> ArtifactView:
    """Store the row of content that is written already. Removes the content if that fails."""
    _, quota_bytes = conf.artifact_limits()
    store = partial(_store, session_id, path, fields, quota_bytes, expected, keep_existing)
    try:
        try:
            return _view(store())
        except IntegrityError:  # created by a concurrent call; now it is visible
            return _view(store())
    except BaseException:
        _discard(session_id, fields["blob"])
        raise


def _store(
    session_id: UUID, path: str, fields: dict[str, Any], quota_bytes: int, expected: str | None, keep_existing: bool
) -> Artifact:
    with transaction.atomic():
        serialize(f"files of {session_id}")
        if keep_existing:
            path = _checked(_free_path(session_id, path, fields["sha256"]))
        row, replaced = _place(session_id, path)
        if expected is not None and row.sha256 != expected:
            raise Conflict("The file has changed since it was read.", code="artifact_changed")
        _check_quota(session_id, row, fields["size_bytes"], quota_bytes)
        for name, value in fields.items():
            setattr(row, name, value)
        row.save()
        if replaced:
            after_commit(_discard, session_id, replaced)
        return row


def _row(session_id: UUID, path: str, child_id: UUID | None = None) -> Artifact:
    names = artifact_paths.aliases(_checked(path), child_id)
    rows = {row.path: row for row in Artifact.objects.filter(session_id=session_id, path__in=names)}
    row = next((rows[name] for name in names if name in rows), None)
    return found(row, f"There is no file {path[: artifact_paths.MAX_CHARACTERS]!r}.")


def check(path: str, media_type: str = "") -> None:
    """Raise InvalidInput (bad_path, bad_media_type) if no file can be stored like this."""
    _media_type(media_type, _checked(path))


def _checked(path: str) -> str:
    try:
        return artifact_paths.checked(path)
    except artifact_paths.BadPathError as error:
        raise InvalidInput(str(error), code="bad_path") from None


def _free_path(session_id: UUID, path: str, digest: str) -> str:
    """Return the path, numbered if another file has it. A file with the same content counts as the same file."""
    rows = Artifact.objects.filter(session_id=session_id).values_list("folded_path", "path", "sha256")
    taken = {folded: (known, sha256) for folded, known, sha256 in rows}
    number, wanted = 1, path
    while taken.get(artifact_paths.folded(wanted), (wanted, digest)) != (wanted, digest):
        number += 1
        wanted = artifact_paths.numbered(path, number)
    return wanted


def _place(session_id: UUID, path: str) -> tuple[Artifact, UUID | None]:
    """Return the locked row of this path and the blob it refers to, or a new unsaved row."""
    folded = artifact_paths.folded(path)
    row = Artifact.objects.select_for_update(no_key=True).filter(session_id=session_id, folded_path=folded).first()
    if row is not None and row.path != path:
        raise InvalidInput(f"The file {row.path!r} already exists; its path differs in case only.", code="path_taken")
    if row is not None:
        return row, row.blob
    return Artifact(session_id=session_id, path=path, folded_path=folded, created_at=timezone.now()), None


def _check_quota(session_id: UUID, row: Artifact, size: int, quota_bytes: int) -> None:
    others = Artifact.objects.filter(session_id=session_id).exclude(pk=row.pk)
    if others.count() >= MAX_FILES:
        raise InvalidInput(f"The session already has {MAX_FILES} files.", code="quota_exceeded")
    used = others.aggregate(sum=Sum("size_bytes"))["sum"] or 0
    if used + size > quota_bytes:
        left = (
            f"The files of a session may have at most {quota_bytes:,} bytes in total; {quota_bytes - used:,} are left."
        )
        raise InvalidInput(left, code="quota_exceeded")


def _media_type(given: str, path: str) -> str:
    media_type = given.strip().lower() or (mimetypes.guess_type(path)[0] or _UNKNOWN_TYPE)
    if not _MEDIA_TYPE.fullmatch(media_type):
        raise InvalidInput("A media type has the form type/subtype, such as text/markdown.", code="bad_media_type")
    return media_type


def _name(session_id: UUID, blob: UUID) -> str:
    return f"artifacts/{session_id}/{blob}"


def _discard(session_id: UUID, blob: UUID) -> None:
    file_store.current().discard(_name(session_id, blob))


def _remove_orphans(session_id: UUID) -> None:
    """Remove files left behind by a crash. Recent ones may belong to a row that is being stored."""
    blobs = Artifact.objects.filter(session_id=session_id).values_list("blob", flat=True)
    known, store = {_name(session_id, blob) for blob in blobs}, file_store.current()
    before = time.time() - _ORPHAN_SECONDS
    with suppress(OSError, AppError):
        listed = store.list_files(f"artifacts/{session_id}")
        store.remove(*[name for name, changed in listed if name not in known and changed < before])


def _view(row: Artifact) -> ArtifactView:
    return view_of(ArtifactView, row, origins=tuple(row.origins.splitlines()))
