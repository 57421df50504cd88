"""Files that users keep for several messages, each for a limited time."""

from collections.abc import Collection
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction
from django.db.models import Count, QuerySet, Sum
from django.utils import timezone

from audit_app.kernel.advisory_lock import serialize
from audit_app.kernel.after_commit import after_commit
from audit_app.kernel.errors import InvalidInput
from audit_app.kernel.ids import new_id
from sessions_app.attachments import storage, uploads
from sessions_app.models import UserFile
from tools_app import conf

MOST_FILES = 1_000  # of one user


def store(user: User, filename: str, data: bytes, *, purpose: str, seconds: int | None = None) -> UserFile:
    """Store a file of the user. Owns its transaction.

    seconds: how long it is kept; None, and at most: KOMAND_ATTACHMENT_DAYS.
    Raises what `uploads.checked` raises, and InvalidInput (too_many_files).
    """
    found, now, file_id = uploads.checked(filename, data), timezone.now(), new_id()
    longest = timedelta(days=min(settings.KOMAND_ATTACHMENT_DAYS, 36_500))
    row = UserFile(
        id=file_id,
        owner=user,
        purpose=purpose,
        filename=found.filename,
        mime_type=found.mime_type,
        size_bytes=len(data),
        path=storage.path_of(file_id),
        created_at=now,
        expires_at=now + (longest if seconds is None else min(timedelta(seconds=seconds), longest)),
    )
    storage.store_whole(file_id, data)
    try:
        with transaction.atomic():
            serialize(f"files of {user.pk}")
            _check_room(user, len(data))
            row.save(force_insert=True)
    except BaseException:
        storage.discard(row.path)
        raise
    return row


def files_of(user: User | AnonymousUser) -> QuerySet[UserFile]:
    """Return the files that the user has now, oldest first."""
    return UserFile.objects.filter(owner_id=user.pk, owner__isnull=False, expires_at__gt=timezone.now())


def find_several(user: User, file_ids: Collection[UUID]) -> dict[UUID, UserFile]:
    """Return those of the files that the user has, by id. One statement."""
    return {row.pk: row for row in files_of(user).filter(pk__in=file_ids)}


def read(row: UserFile) -> bytes:
    """Return the content of a file. Raises NotFound, Unavailable."""
    return storage.read(row.path)


def delete(row: UserFile) -> None:
    """Delete a file. Messages keep their copies. Idempotent. Owns its transaction."""
    with transaction.atomic():
        UserFile.objects.filter(pk=row.pk).delete()
        after_commit(storage.discard, row.path)


def _check_room(user: User, size: int) -> None:
    _, most_bytes = conf.artifact_limits()
    kept = files_of(user).aggregate(files=Count("pk"), bytes=Sum("size_bytes"))
    if kept["files"] >= MOST_FILES or (kept["bytes"] or 0) + size > most_bytes:
        problem = (
            f"You may keep {MOST_FILES:,} files of {most_bytes:,} bytes together. Delete some, or let them expire."
        )
        raise InvalidInput(problem, code="too_many_files")
