"""Files of messages as parts that models may take."""

from collections.abc import Iterable
from uuid import UUID

from agents_app.prompt.tool_pictures import REFERENCE
from agents_app.types import MessagePart
from audit_app.kernel.errors import NotFound
from sessions_app.attachments import model_text, records, storage
from sessions_app.models import Attachment
from tools_app.storage import artifacts

_KINDS = ("image/", "audio/", "application/pdf")
_NOT_IN_TEXT = ("", Attachment.FAILED)
_GONE = "it has been deleted or replaced"


def parts_of(rows: Iterable[Attachment]) -> tuple[MessagePart, ...]:
    """Return those of a message's files that are stored and that some models take.

    Texts are in the message itself, and so are the words of transcribed audio. The text of a PDF stands for it where a
    model does not take it.
    """
    return tuple(
        model_text.as_part(records.described(row))
        for row in rows
        if row.status == "stored"
        and row.mime_type.startswith(_KINDS)
        and row.transcription in _NOT_IN_TEXT
        and not records.is_unreadable(row)
    )


def load(reference: str) -> bytes:
    """Return the content of a part. Raises Unavailable, and NotFound if it is deleted, or an agent has replaced it."""
    if reference.startswith(REFERENCE):
        artifact_id, _, digest = reference.removeprefix(REFERENCE).partition(":")
        return _load_artifact(UUID(artifact_id), digest)
    row = Attachment.objects.filter(pk=UUID(reference)).first()
    if row is None or not (row.artifact_id or row.path):
        raise NotFound(_GONE)
    if row.artifact_id is None:
        try:
            return storage.read(row.path)
        except NotFound:
            raise NotFound(_GONE) from None
    return _load_artifact(row.artifact_id, row.sha256)


def _load_artifact(artifact_id: UUID, digest: str) -> bytes:
    view = artifacts.get_artifact(artifact_id)
    if view.sha256 != digest:
        raise NotFound(_GONE)
    return artifacts.read_artifact(view.session_id, view.path)[1]
