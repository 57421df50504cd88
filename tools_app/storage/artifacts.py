"""Files of a session that its runs write and read: a row each, their bytes under `<data>/artifacts/<session>/<blob>`.

Bytes are written whole before their row, under a name that is new each time, and removed after the row points
elsewhere: a crash leaves a file that nobody knows, never a row without its bytes. Several machines need that folder in
common.
"""

import mimetypes
import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from django.db import IntegrityError, transaction
from django.db.models import Sum
from django.utils import timezone

from audit_app.kernel.errors import Conflict, InvalidInput, NotFound
from tools_app import conf
from tools_app.advisory_lock import serialize
from tools_app.models import Artifact
from tools_app.storage import artifact_paths

MAX_FILES = 500
_ORPHAN_SECONDS = 3600
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,60}")
_UNKNOWN_TYPE = "application/octet-stream"


@dataclass(frozen=True)
class ArtifactView:
    """One file as others see it. sha256: of its bytes, in hexadecimal."""

    id: UUID
    session_id: UUID
    run_id: UUID | None
    path: str
    media_type: str
    size_bytes: int
    sha256: str
    updated_at: datetime


def write_artifact(
    session_id: UUID,
    path: str,
    data: bytes,
    *,
    run_id: UUID | None,
    agent_id: str,
    media_type: str = "",
    expected_sha256: str | None = None,
    keep_existing: bool = False,
) -> ArtifactView:
    """Store a file, in place of the one that has its path. Owns its transaction; the same again is the same file.
    run_id and agent_id: who made it; None and "" for a person. expected_sha256: of the file as it has to be now, for
    whoever changes what they read. keeps_others: another file that has its path stays, and this one is `name (2)`.

    Raises Conflict (artifact_changed) when it is another by now, and InvalidInput: bad_path, path_taken (by one that
    differs in case alone), artifact_too_large, quota_exceeded.
    """
    path = _checked(path)
    most, session_quota_bytes = conf.artifact_limits()
    if len(data) > most:
        raise InvalidInput(
            f"The file has {len(data):,} bytes; at most {most:,} are allowed.", code="artifact_too_large"
        )
    blob = uuid4()
    fields = {
        "run_id": run_id,
        "agent_id": agent_id,
        "blob": blob,
        "size_bytes": len(data),
        "media_type": _media_type(media_type, path),
        "sha256": sha256(data).hexdigest(),
        "updated_at": timezone.now(),
    }
    folder = _folder(session_id)
    _write_whole(folder, blob, data)
    try:
        store = partial(_store, session_id, path, fields, session_quota_bytes, expected_sha256, keep_existing)
        try:
            row = store()
        except IntegrityError:  # another call has just made a file of this path: now it is there to be seen
            row = store()
    except BaseException:
        _remove(folder, blob)
        raise
    _remove_orphans(session_id, folder)
    return _view(row)


def read_artifact(session_id: UUID, path: str) -> tuple[ArtifactView, bytes]:
    """A file and its bytes. Raises InvalidInput (bad_path), NotFound."""
    row = _row(session_id, path)
    return _view(row), _read(_folder(session_id), row.blob)


def find_artifact(session_id: UUID, path: str) -> ArtifactView:
    """What is known of the session's file of that path. Raises InvalidInput (bad_path), NotFound."""
    return _view(_row(session_id, path))


def get_artifact(artifact_id: UUID) -> ArtifactView:
    """What is known of a file, whosever it is. Raises NotFound."""
    row = Artifact.objects.filter(pk=artifact_id).first()
    if row is None:
        raise NotFound("There is no such file.")
    return _view(row)


def list_artifacts(session_id: UUID) -> tuple[ArtifactView, ...]:
    """What the session has, by path."""
    return tuple(_view(row) for row in Artifact.objects.filter(session_id=session_id).order_by("path"))


def count_artifacts(session_id: UUID) -> int:
    return Artifact.objects.filter(session_id=session_id).count()


def delete_artifact(session_id: UUID, path: str) -> bool:
    """False: there was no such file."""
    with transaction.atomic():
        row = Artifact.objects.filter(session_id=session_id, path=_checked(path)).first()
        if row is None:
            return False
        row.delete()
        transaction.on_commit(partial(_remove, _folder(session_id), row.blob), robust=True)
        return True


def _store(
    session_id: UUID,
    path: str,
    fields: dict[str, Any],
    session_quota_bytes: int,
    expected: str | None,
    keep_existing: bool,
) -> Artifact:
    with transaction.atomic():
        serialize(f"files of {session_id}")
        if keep_existing:
            path = _checked(_free_path(session_id, path, fields["sha256"]))
        row, replaced = _place(session_id, path)
        if expected is not None and row.sha256 != expected:
            raise Conflict("The file has changed since it was read.", code="artifact_changed")
        _check_quota(session_id, row, fields["size_bytes"], session_quota_bytes)
        for name, value in fields.items():
            setattr(row, name, value)
        row.save()
        if replaced:
            transaction.on_commit(partial(_remove, _folder(session_id), replaced), robust=True)
        return row


def _row(session_id: UUID, path: str) -> Artifact:
    row = Artifact.objects.filter(session_id=session_id, path=_checked(path)).first()
    if row is None:
        raise NotFound(f"There is no file {path[: artifact_paths.MAX_CHARACTERS]!r}.")
    return row


def _checked(path: str) -> str:
    try:
        return artifact_paths.checked(path)
    except artifact_paths.BadPathError as error:
        raise InvalidInput(str(error), code="bad_path") from None


def _free_path(session_id: UUID, path: str, digest: str) -> str:
    """The path, or with a number in it where another file has it. A file with these very bytes is no other one."""
    rows = Artifact.objects.filter(session_id=session_id).values_list("folded_path", "path", "sha256")
    taken = {folded: (known, sha256) for folded, known, sha256 in rows}
    number, wanted = 1, path
    while taken.get(artifact_paths.folded(wanted), (wanted, digest)) != (wanted, digest):
        number += 1
        wanted = artifact_paths.numbered(path, number)
    return wanted


def _place(session_id: UUID, path: str) -> tuple[Artifact, UUID | None]:
    """The row of that path, locked, with the bytes it has; or a new one that is not stored yet."""
    folded = artifact_paths.folded(path)
    row = Artifact.objects.select_for_update().filter(session_id=session_id, folded_path=folded).first()
    if row is not None and row.path != path:
        raise InvalidInput(f"There is a file {row.path!r} already, which differs in case alone.", code="path_taken")
    if row is not None:
        return row, row.blob
    return Artifact(session_id=session_id, path=path, folded_path=folded, created_at=timezone.now()), None


def _check_quota(session_id: UUID, row: Artifact, size: int, session_quota_bytes: int) -> None:
    others = Artifact.objects.filter(session_id=session_id).exclude(pk=row.pk)
    if others.count() >= MAX_FILES:
        raise InvalidInput(f"The session has {MAX_FILES} files already.", code="quota_exceeded")
    used = others.aggregate(sum=Sum("size_bytes"))["sum"] or 0
    if used + size > session_quota_bytes:
        raise InvalidInput(
            f"The files of a session may have {session_quota_bytes:,} bytes in total; "
            f"{session_quota_bytes - used:,} are left.",
            code="quota_exceeded",
        )


def _media_type(given: str, path: str) -> str:
    media_type = given.strip().lower() or (mimetypes.guess_type(path)[0] or _UNKNOWN_TYPE)
    if not _MEDIA_TYPE.fullmatch(media_type):
        raise InvalidInput("A media type reads like text/markdown.", code="bad_media_type")
    return media_type


def _folder(session_id: UUID) -> Path:
    return conf.data_folder() / "artifacts" / str(session_id)


def _write_whole(folder: Path, blob: UUID, data: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    # O_EXCL: never through a link that somebody put there, never over something else.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(folder / str(blob), flags, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _read(folder: Path, blob: UUID) -> bytes:
    try:
        with os.fdopen(os.open(folder / str(blob), os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            return file.read()
    except OSError:
        raise NotFound("The file's bytes are not on this machine.") from None


def _remove(folder: Path, blob: UUID) -> None:
    with suppress(OSError):
        (folder / str(blob)).unlink()


def _remove_orphans(session_id: UUID, folder: Path) -> None:
    """Files that a crash left behind. Young ones may belong to a row that is just being stored."""
    known = {str(blob) for blob in Artifact.objects.filter(session_id=session_id).values_list("blob", flat=True)}
    before = time.time() - _ORPHAN_SECONDS
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name not in known and entry.stat(follow_symlinks=False).st_mtime < before:
                os.unlink(entry.path)


def _view(row: Artifact) -> ArtifactView:
    return ArtifactView(
        id=row.id,
        session_id=row.session_id,
        run_id=row.run_id,
        path=row.path,
        media_type=row.media_type,
        size_bytes=row.size_bytes,
        sha256=row.sha256,
        updated_at=row.updated_at,
    )
