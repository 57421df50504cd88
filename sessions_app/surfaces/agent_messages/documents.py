"""Documents of the protocol: files of a user's sessions, and files uploaded for a message. Synchronous."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User

from audit_app.kernel.errors import NotFound
from sessions_app import selectors
from sessions_app.access import access_artifact, access_sent_file, access_unsent_file
from sessions_app.attachments import file_parts, storage
from sessions_app.models import Attachment
from tools_app.documents import document_text
from tools_app.storage import artifacts
from tools_app.storage.artifacts import ArtifactView

MOST = 100  # of a page
_MOST_NAMED = 20
# Links that clients write for chosen documents.
_LINK = re.compile(r"\]\((?:/store/objects/|store:)([0-9a-fA-F-]{36})\)")


@dataclass(frozen=True)
class Document:
    """A file of a user. stored: the file of a session that it is, or the attachment that is not one (yet)."""

    id: UUID
    name: str
    media_type: str
    changed_at: datetime
    stored: ArtifactView | Attachment

    @property
    def is_unsent(self) -> bool:
        return isinstance(self.stored, Attachment) and self.stored.turn_id is None

    def is_in(self, session_id: UUID | None) -> bool:
        """Return whether it is a file of this session."""
        return isinstance(self.stored, ArtifactView) and self.stored.session_id == session_id


def find(user: User, document_id: str | UUID) -> Document:
    """Return a document by the id of a file or of an attachment. Raises NotFound."""
    with suppress(NotFound):
        return _of_artifact(access_artifact(user, document_id))
    with suppress(NotFound):
        return _of_attachment(access_unsent_file(user, document_id))
    row = access_sent_file(user, document_id)
    return _of_artifact(artifacts.get_artifact(row.artifact_id)) if row.artifact_id else _of_attachment(row)


def list_documents(user: User, *, offset: int, limit: int) -> list[Document]:
    """Return the files of the user's sessions, the last changed first."""
    rows = artifacts.list_artifacts_of(selectors.session_ids_of(user), offset=offset, limit=limit)
    return [_of_artifact(row) for row in rows]


def read(document: Document) -> bytes:
    """Return the content. Raises NotFound, Unavailable."""
    stored = document.stored
    if isinstance(stored, ArtifactView):
        return artifacts.read_artifact(stored.session_id, stored.path)[1]
    return storage.read(stored.path) if document.is_unsent else file_parts.load(str(stored.pk))


def text_of(document: Document) -> str | None:
    """Return the text of a text file, or the text that was read from another one, None if there is none."""
    if isinstance(document.stored, Attachment) and document.stored.text:
        return document.stored.text
    data = read(document)
    if found := document_text.read(data):
        return found.text or None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def named_in(text: str, metadata: Mapping[str, Any]) -> list[str]:
    """Return the ids of the documents that a message names, by links in its text or in `attached_docs`, in order."""
    listed = metadata.get("attached_docs")
    ids = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    return list(dict.fromkeys([*ids, *_LINK.findall(text)]))[:_MOST_NAMED]


def find_several(user: User, ids: list[str]) -> Iterator[Document]:
    """Yield those documents of the user that these ids name: others may be documents of the client's own."""
    for name in ids:
        with suppress(NotFound):
            yield find(user, name)


def _of_artifact(view: ArtifactView) -> Document:
    return Document(view.id, view.path.rpartition("/")[2], view.media_type, view.updated_at, view)


def _of_attachment(row: Attachment) -> Document:
    return Document(row.pk, row.filename or row.kind, row.mime_type, row.created_at, row)
