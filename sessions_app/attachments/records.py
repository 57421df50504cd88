"""The only writer of attachments: added with their turn, fetched once, described in the turn for the model."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from functools import reduce
from operator import or_
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from agents_app import services as runs
from agents_app.prompt.tool_pictures import REFERENCE
from agents_app.types import OmittedPart
from audit_app.kernel.errors import InvalidInput
from audit_app.kernel.ids import new_id
from audit_app.kernel.nudges import WorkerNudge
from sessions_app import hot_queries
from sessions_app.attachments import model_text
from sessions_app.attachments.model_text import Content, Described
from sessions_app.models import Attachment, ChannelAccount, Session, Turn
from sessions_app.platforms import messages
from sessions_app.platforms.base import MIB
from tools_app.documents.document_types import OFFICE, OLD_OFFICE, PROTECTED
from tools_app.storage import artifact_paths, artifacts

# The time that a run waits for its files, and for further parts of an album after each.
FETCH_SECONDS = 60.0
ALBUM_SECONDS = 1.5
MOST_BYTES = 20 * MIB
_UNKNOWN = "unknown_attachment"

file_nudge = WorkerNudge("sessions.fetch_files", "runs")  # of the workers that fetch files, which also poll


def add(turn: Turn, account: ChannelAccount, files: Sequence[messages.Attachment], *, is_album: bool = False) -> bool:
    """Add files to a turn, in the caller's transaction; its run waits for them. Returns False if the run has begun.

    is_album: further files may follow, for which the run waits too.
    """
    now = timezone.now()
    rows = [_row(turn, account, file) for file in files if file.auth != "stored"]
    uploaded = [_uploaded_row(account, file) for file in files if file.auth == "stored"]
    _number_names(turn, [*rows, *uploaded])
    for row in uploaded:
        row.turn = turn
    Attachment.objects.bulk_update(uploaded, ["turn", "filename"])
    for row in rows:
        row.created_at, row.until = now, now + timedelta(seconds=FETCH_SECONDS)
        row.album_until = now + timedelta(seconds=ALBUM_SECONDS) if is_album else None
    Attachment.objects.bulk_create(rows)
    file_nudge.send_on_commit()
    return settle(turn)


def move_times(by: timedelta) -> None:
    """Move the times of files that are to be fetched by a time in which no process ran, in the caller's transaction."""
    rows = Attachment.objects.filter(status="waiting")
    rows.update(until=F("until") + by, album_until=F("album_until") + by)


def copy(turn_ids: Sequence[UUID], turn: Turn) -> None:
    """Add the files of other turns to a turn that repeats them. The rows share the stored files."""
    rows = list(Attachment.objects.filter(turn__in=turn_ids).order_by("id"))
    for row in rows:
        row.pk, row.turn = new_id(), turn
        row.omitted_because = row.omitted_because if is_unreadable(row) else ""
        row.transcription = "" if row.transcription == Attachment.FAILED else row.transcription
    Attachment.objects.bulk_create(rows)


def list_of(turn_ids: Sequence[UUID]) -> dict[UUID, tuple[Attachment, ...]]:
    """Return the files of turns, by turn. No query without turns."""
    found: dict[UUID, tuple[Attachment, ...]] = defaultdict(tuple)
    for row in Attachment.objects.filter(turn__in=turn_ids).order_by("position", "id") if turn_ids else ():
        if row.turn_id:
            found[row.turn_id] += (row,)
    return dict(found)


def url_of(row: Attachment) -> str:
    """Return the path of the content for readers of the session, empty if there is none."""
    if row.artifact_id:
        return f"/api/artifacts/{row.artifact_id}"
    return f"/api/attachments/{row.pk}/content" if row.has_content else ""


def link_artifacts(session: Session) -> None:
    """Let the copied files of a session refer to the session's own artifacts of the same name, where it has them."""
    found = {view.path: view.id for view in artifacts.list_artifacts(session.id)}
    rows = list(Attachment.objects.filter(turn__session=session, artifact_id__isnull=False))
    for row in rows:
        row.artifact_id = found.get(f"files/{row.filename}", row.artifact_id)
    Attachment.objects.bulk_update(rows, ["artifact_id"])


def list_due(limit: int) -> list[Attachment]:
    """Return unclaimed files that are to be fetched, oldest first."""
    if not hot_queries.FIND_WAITING_FILE.rows():
        return []
    rows = Attachment.objects.filter(status="waiting", owner=None, until__gt=timezone.now())
    return list(rows.select_related("account", "turn").order_by("id")[:limit])


def claim(row: Attachment, owner: UUID) -> bool:
    """Claim a file for this process. Returns whether it succeeded. Owns its transaction."""
    with transaction.atomic():
        return Attachment.objects.filter(pk=row.pk, status="waiting", owner=None).update(owner=owner) == 1


def unclaim(row: Attachment) -> None:
    """Give up the claim of a process that died, so that another one fetches the file."""
    with transaction.atomic():
        Attachment.objects.filter(pk=row.pk, owner=row.owner, status="waiting").update(owner=None)


def mark_stored(row: Attachment, owner: UUID, path: str, size_bytes: int, content: Content) -> None:
    content = replace(content, mime_type=model_text.media_type_of(row.kind, content.mime_type))
    _end(row, owner, status="stored", path=path, size_bytes=size_bytes, **asdict(content))


def mark_failed(row: Attachment, owner: UUID | None, error: str) -> bool:
    """End the fetching of a file. Returns False if another process has it, or it has ended. Owns its transaction."""
    return _end(row, owner, status="failed", error=error[:300])


def store_omitted(run_id: UUID, omitted: Sequence[OmittedPart]) -> list[Attachment]:
    """Store why the model did not get files of the run's messages, in the caller's transaction.

    Pictures of tool results are left out. Returns the files for which that is new.
    """
    of_messages = [part for part in omitted if not part.reference.startswith(REFERENCE)]
    reasons = {UUID(part.reference): part.reason for part in of_messages}
    new = Attachment.objects.filter(pk__in=reasons, turn__run_id=run_id, omitted_because="")
    rows = list(new.select_related("turn").order_by("id"))
    for row in rows:
        row.omitted_because = reasons[row.pk][:300]
    Attachment.objects.bulk_update(rows, ["omitted_because"])
    return rows


def store_transcription(row: Attachment, transcription: str, *, text: str = "", failure: str = "") -> None:
    """Store the transcript of a file, or the reason why there is none, in the caller's transaction."""
    row.transcription, row.omitted_because = transcription, failure[:300]
    if text:
        row.text, row.characters = text[: model_text.LONGEST_TEXT], len(text)
    row.save(update_fields=["transcription", "omitted_because", "text", "characters"])


def as_message_part(row: Attachment) -> messages.Attachment:
    """Return the attachment as its channel delivered it."""
    return messages.Attachment(row.source, row.kind, row.filename, row.mime_type, row.size_bytes, row.source)


def turn_of(row: Attachment) -> Turn:
    """Return the turn of a channel's file, which has one from the start."""
    if row.turn is None:
        raise ValueError(f"attachment {row.pk} has no message yet")
    return row.turn


def settle(turn: Turn) -> bool:
    """Describe the files in the turn, and start its run if it waits for none. Returns whether the run was waiting.

    Owns its transaction. The run's row is locked first: of two files that end concurrently, one sees the other's end.
    """
    assert turn.run_id is not None  # noqa: S101 - files come with a message that a run answers
    with transaction.atomic():
        is_waiting = runs.delay_run(turn.run_id, FETCH_SECONDS)
        files = list(Attachment.objects.filter(turn=turn).order_by("id"))
        Turn.objects.filter(pk=turn.pk).update(attached=model_text.describe(described(file) for file in files))
        if is_waiting:
            ends = [file.until for file in files if file.status == "waiting"] + [file.album_until for file in files]
            now = timezone.now()
            runs.delay_run(turn.run_id, max(((end - now).total_seconds() for end in ends if end), default=0.0))
        return is_waiting


def _end(row: Attachment, owner: UUID | None, **fields: object) -> bool:
    with transaction.atomic():
        rows = Attachment.objects.filter(pk=row.pk, status="waiting", owner=owner)
        if not rows.update(owner=None, **fields):
            return False
        settle(turn_of(row))
        return True


def _row(turn: Turn, account: ChannelAccount, file: messages.Attachment) -> Attachment:
    row = Attachment(
        id=new_id(),
        turn=turn,
        account=account,
        kind=file.kind[:12],
        source=file.url or file.id,
        filename=model_text.clean_filename(file.filename or ""),
        mime_type=(file.mime_type or "")[:100],
        size_bytes=file.size_bytes,
    )
    if file.kind == "sticker":
        row.status = "skipped"
    elif (file.size_bytes or 0) > MOST_BYTES:
        row.status, row.error = "failed", f"it has more than {MOST_BYTES // MIB} MB"
    return row


def _uploaded_row(account: ChannelAccount, file: messages.Attachment) -> Attachment:
    """Return the row of a file that the sender has uploaded for this message, locked. Raises InvalidInput."""
    unsent = Attachment.objects.select_for_update(no_key=True).filter(account=account, turn=None, source=file.id)
    row = unsent.filter(pk=file.id.rpartition("/")[2]).first()
    if row is None:
        raise InvalidInput("A file of the message is not there, or was sent before. Upload it again.", code=_UNKNOWN)
    return row


def _number_names(turn: Turn, rows: Sequence[Attachment]) -> None:
    """Number file names that the session already has: users refer to files by name."""
    names = {row.filename for row in rows if row.filename}
    if not names:
        return
    # Compare the beginning: the number stands at the end of a name.
    begins = reduce(or_, (Q(filename__startswith=name.rpartition(".")[0] or name) for name in names))
    others = Attachment.objects.filter(begins, turn__session_id=turn.session_id)
    taken = set(others.values_list("filename", flat=True))
    for row in rows:
        number, name = 1, row.filename
        while name and row.filename in taken:
            number += 1
            row.filename = artifact_paths.numbered(name, number)
        taken.add(row.filename)


def is_unreadable(row: Attachment) -> bool:
    """Return whether it is a document that was found, when it was stored, to have no text for any model."""
    is_office = row.mime_type.startswith((OFFICE, OLD_OFFICE))
    return bool(row.omitted_because) and (is_office or row.omitted_because == PROTECTED)


def described(row: Attachment) -> Described:
    """Return the file as `model_text.describe` takes it."""
    artifact_path = f"files/{row.filename}" if row.artifact_id else ""
    has_failed = row.transcription == Attachment.FAILED or is_unreadable(row)
    error = row.error or (row.omitted_because if has_failed else "")
    shown = (row.text, row.characters, error, str(row.pk), artifact_path, row.account_id is not None)
    counted = (row.transcription, row.page_count)
    return Described(row.kind, row.filename, row.mime_type, row.size_bytes, row.status, *shown, *counted)
