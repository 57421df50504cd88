"""Files that go to the agent with a message: those that were uploaded to its run since the last one, and documents that
it names. Synchronous.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User

from audit_app.kernel.errors import AppError
from sessions_app.attachments import uploads
from sessions_app.models import Attachment, Session
from sessions_app.surfaces.agent_messages import documents
from tools_app.storage import artifacts

_SHOWN = ("image/", "audio/", "application/pdf")


@dataclass(frozen=True)
class MessageFiles:
    """Files of a message.

    ids: of uploaded files.
    digest: the same for each repetition of the message.
    """

    ids: tuple[UUID, ...] = ()
    digest: str = ""


@contextmanager
def attached(
    user: User,
    session: Session | None,
    text: str,
    metadata: Mapping[str, Any],
    uploaded: Sequence[Mapping[str, Any]] = (),
) -> Iterator[MessageFiles]:
    """Yield the files of a message. Copies that were not sent are deleted afterwards.

    session: that of the message; None before it has one.
    uploaded: files of the run that the agent does not know.
    """
    named = documents.named_in(text, metadata)
    copies = show(user, session, uploaded) if session else []
    sent: list[Attachment] = []
    for document in documents.find_several(user, named):
        if len(copies) + len(sent) >= settings.KOMAND_MESSAGE_FILES:
            break
        if isinstance(document.stored, Attachment) and document.is_unsent:
            sent.append(document.stored)
        elif not document.is_in(session.id if session else None):
            with suppress(AppError):  # of a type that messages cannot have: the link remains
                copies.append(uploads.upload(user, document.name, documents.read(document)))
    with uploads.unsent_discarded(copies) as ids:
        yield MessageFiles((*ids, *(row.pk for row in sent)), "named" if named else "")


def show(user: User, session: Session, files: Sequence[Mapping[str, Any]]) -> list[Attachment]:
    """Return the first images, audio and PDF files as files of a message, for models that take them.

    The message has the same content under the same path, so it stays the same artifact.
    """
    shown: list[Attachment] = []
    for file in files:
        is_wanted = file["status"] == "ready" and file["content_type"].startswith(_SHOWN)
        folder, _, name = file.get("artifact_path", "").rpartition("/")
        if is_wanted and folder == "files" and len(shown) < settings.KOMAND_MESSAGE_FILES:
            with suppress(AppError):
                shown.append(uploads.upload(user, name, artifacts.read_artifact(session.id, f"files/{name}")[1]))
    return shown
