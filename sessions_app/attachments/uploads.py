"""Files that users upload for their messages: stored alone first, then with the message that is sent with them.

Until then they belong to their uploader. With the message they become artifacts of its session, by which the quota of a
session, downloads and the tool `read_artifact` cover them.
"""

import mimetypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction
from django.db.models import Count, QuerySet, Sum
from django.utils import timezone

from audit_app.kernel.advisory_lock import serialize
from audit_app.kernel.after_commit import after_commit
from audit_app.kernel.errors import InvalidInput, NotFound
from audit_app.kernel.ids import new_id
from sessions_app.attachments import file_content, model_text, records, storage
from sessions_app.attachments.model_text import Content
from sessions_app.models import Attachment, ChannelAccount, Session
from sessions_app.platforms.messages import uploaded_source
from tools_app import conf
from tools_app.storage import artifact_paths, artifacts

# Files of one user that wait for their message.
MOST_UNSENT = 50
_KINDS = ("image", "audio", "video")
_TEXT_TYPES = ("text/", "application/json", "application/xml", "application/toml", "application/yaml")


def upload(user: User, filename: str, data: bytes) -> Attachment:
    """Store a file for a message that the user will send. Owns its transaction.

    Its type is read from its bytes. Raises InvalidInput (empty_file, unsupported_file_type, too_many_uploads).
    """
    row = _new_row(filename, data)
    row.uploader = user
    _store(row, data, f"uploads of {user.pk}", Attachment.objects.filter(uploader=user, turn=None))
    return row


def upload_of_sender(account: ChannelAccount, sender_id: str, filename: str, data: bytes) -> Attachment:
    """Store a file for a message that a sender of the account will send. As `upload`."""
    row = _new_row(filename, data)
    row.account, row.source = account, uploaded_source(sender_id, row.id)
    unsent = Attachment.objects.filter(account=account, turn=None, source__startswith=f"{sender_id}/")
    _store(row, data, f"uploads of {account.pk} {sender_id}", unsent)
    return row


def has_unsent(account: ChannelAccount, sources: Sequence[str]) -> bool:
    """Return whether senders of the account have uploaded all these files, and sent none of them."""
    wanted = set(sources)
    unsent = Attachment.objects.filter(account=account, turn=None, source__in=wanted)
    return not wanted or unsent.values("source").distinct().count() == len(wanted)


@dataclass(frozen=True)
class CheckedFile:
    """A file that may be stored. mime_type: read from its bytes."""

    kind: str
    filename: str
    mime_type: str
    content: Content


def checked(filename: str, data: bytes) -> CheckedFile:
    """Return what is known of a file. Raises InvalidInput (empty_file, unsupported_file_type)."""
    if not data:
        raise InvalidInput("The file is empty. Choose another one.", code="empty_file")
    content = file_content.read(data)
    media_type = _media_type(content.mime_type, filename)
    if not is_accepted(media_type):
        accepted = ", ".join(settings.KOMAND_ATTACHMENT_TYPES)
        read = "The type is read from the content, not from the name"
        problem = f"Files of the type {media_type} are not accepted. {read}. Accepted are {accepted}."
        raise InvalidInput(problem, code="unsupported_file_type")
    kind = media_type.partition("/")[0]
    kind = kind if kind in _KINDS else "file"
    name = artifact_paths.usable_name(model_text.clean_filename(filename))
    return CheckedFile(kind, name or f"{kind}{mimetypes.guess_extension(media_type) or ''}", media_type, content)


def _new_row(filename: str, data: bytes) -> Attachment:
    found, now, row_id = checked(filename, data), timezone.now(), new_id()
    return Attachment(
        id=row_id,
        kind=found.kind,
        filename=found.filename,
        mime_type=found.mime_type,
        size_bytes=len(data),
        status="stored",
        until=now,
        path=storage.path_of(row_id),
        text=found.content.text,
        characters=found.content.characters,
        omitted_because=found.content.omitted_because,
        page_count=found.content.page_count,
        sha256=sha256(data).hexdigest(),
        created_at=now,
    )


def _store(row: Attachment, data: bytes, owner: str, unsent: QuerySet[Attachment]) -> None:
    """Store a new row and its file.

    owner: names the uploader.
    unsent: the uploader's other files.
    """
    storage.store_whole(row.id, data)
    try:
        with transaction.atomic():
            serialize(owner)
            _check_unsent(unsent, len(data))
            row.save(force_insert=True)
    except BaseException:
        storage.discard(row.path)
        raise


def is_accepted(media_type: str) -> bool:
    """Return whether the operator accepts files of this type in messages."""
    return any(fnmatchcase(media_type, pattern) for pattern in settings.KOMAND_ATTACHMENT_TYPES)


def find_unsent(user: User | AnonymousUser, attachment_id: UUID) -> Attachment:
    """Return a file that the user has uploaded and not sent. Raises NotFound."""
    row = Attachment.objects.filter(pk=attachment_id, uploader_id=user.pk, turn=None).exclude(uploader=None).first()
    if row is None:
        raise NotFound("There is no such file, or it has been sent.")
    return row


def discard(row: Attachment) -> None:
    """Delete an uploaded file, unless it has been sent. Idempotent. Owns its transaction."""
    with transaction.atomic():
        if Attachment.objects.filter(pk=row.pk, turn=None).delete()[0]:
            after_commit(storage.discard, row.path)


@contextmanager
def unsent_discarded(rows: Sequence[Attachment]) -> Iterator[tuple[UUID, ...]]:
    """Yield the ids of uploaded files, and delete at the end those that were not sent: the message was refused, or was
    stored before with files of its own. They would count against the uploader's limit.
    """
    try:
        yield tuple(row.pk for row in rows)
    finally:
        for row in rows:
            discard(row)


def take(user: User | None, attachment_ids: Sequence[UUID], session: Session) -> tuple[Attachment, ...]:
    """Make uploaded files artifacts of the session, in the caller's transaction. Return their rows, locked, in order.

    Raises InvalidInput (too_many_attachments, unknown_attachment, quota_exceeded).
    """
    most = settings.KOMAND_MESSAGE_FILES
    if len(attachment_ids) > most:
        raise InvalidInput(f"A message may have at most {most} files. Remove some.", code="too_many_attachments")
    rows = _lock_unsent(user, attachment_ids)
    for position, row in enumerate(rows):
        row.position = position
        file = artifacts.StoredFile(storage.name_of(row.path), row.mime_type, row.size_bytes or 0, row.sha256)
        stored = artifacts.add_artifact(artifacts.Writer(session.id), f"files/{row.filename}", file)
        row.artifact_id, row.filename = stored.id, stored.path.rpartition("/")[2]
        after_commit(storage.discard, row.path)
    return rows


def _lock_unsent(user: User | None, attachment_ids: Sequence[UUID]) -> tuple[Attachment, ...]:
    unsent = Attachment.objects.select_for_update(no_key=True).filter(pk__in=attachment_ids, uploader=user, turn=None)
    found = {row.pk: row for row in unsent.exclude(uploader=None)}
    if missing := [name for name in attachment_ids if name not in found]:
        problem = f"There is no file {missing[0]} of yours to send, or it has been sent. Upload it again."
        raise InvalidInput(problem, code="unknown_attachment")
    return tuple(found[name] for name in dict.fromkeys(attachment_ids))


def bind(rows: Sequence[Attachment], turn_id: UUID) -> None:
    """Store the turn of the rows that `take` returned, in the caller's transaction."""
    for row in rows:
        row.turn_id = turn_id
    Attachment.objects.bulk_update(rows, ["turn", "artifact_id", "filename", "position"])


def describe(rows: Sequence[Attachment]) -> str:
    """Return the files as text for the model."""
    return model_text.describe(records.described(row) for row in rows)


def _media_type(detected: str, filename: str) -> str:
    """Return the type of a file: as its bytes say, and for a text more closely as its name says."""
    guessed = mimetypes.guess_type(filename)[0] or ""
    if guessed.startswith("audio/"):
        return model_text.media_type_of("audio", detected)
    return guessed if detected == "text/plain" and guessed.startswith(_TEXT_TYPES) else detected


def _check_unsent(unsent: QuerySet[Attachment], size: int) -> None:
    _, most_bytes = conf.artifact_limits()
    waiting = unsent.aggregate(files=Count("pk"), bytes=Sum("size_bytes"))
    if waiting["files"] >= MOST_UNSENT or (waiting["bytes"] or 0) + size > most_bytes:
        problem = "Too many of your uploaded files wait for their message. Send or remove some, or try again tomorrow."
        raise InvalidInput(problem, code="too_many_uploads")
