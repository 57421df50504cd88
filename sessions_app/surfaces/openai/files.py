"""Files that clients upload once and name in several requests, and the parts of messages that name one.

API reference, "Files". A part `input_file` or `input_image`, or `file` of a completion, names a file by `file_id`.
"""

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User

from audit_app.kernel.errors import NotFound
from sessions_app.access import access_user_file
from sessions_app.attachments import user_files
from sessions_app.models import UserFile
from sessions_app.surfaces.base.forms import Form, file_of
from sessions_app.surfaces.base.function_tools import invalid_param
from sessions_app.surfaces.openai.chat_messages import MOST_MESSAGES
from tools_app import conf

PURPOSES = tuple(purpose for purpose, _ in UserFile.PURPOSES)
LEAST_SECONDS, MOST_SECONDS = 3_600, 2_592_000  # of `expires_after`, as the API reference says
_PREFIX = "file-"
_NAMING = ("input_file", "input_image")  # parts that name a file themselves; `file` does within its field `file`


def upload(user: User, form: Form) -> UserFile:
    """Store the file of a form. Raises InvalidInput."""
    purpose, file = form.text("purpose"), file_of(form)
    if purpose not in PURPOSES:
        message = f"The purpose {purpose!r} is not supported here. Send one of {', '.join(PURPOSES)}."
        raise invalid_param(message, "purpose", "unsupported_purpose" if purpose else "missing_required_parameter")
    return user_files.store(user, file.name, file.data, purpose=purpose, seconds=_expires_after(form))


def find(user: User, file_id: str) -> UserFile:
    """Return the user's file of an id. Raises NotFound (file_not_found)."""
    try:
        return access_user_file(user, file_id.removeprefix(_PREFIX) if file_id.startswith(_PREFIX) else "")
    except NotFound:
        raise _not_found(file_id) from None


def as_object(row: UserFile) -> dict[str, Any]:
    """Return a file as the protocol shows it."""
    return {
        "id": f"{_PREFIX}{row.pk.hex}",
        "object": "file",
        "bytes": row.size_bytes,
        "created_at": int(row.created_at.timestamp()),
        "expires_at": int(row.expires_at.timestamp()),
        "filename": row.filename,
        "purpose": row.purpose,
        "status": "processed",
    }


def with_contents(user: User, body: Any, name: str) -> Any:
    """Return the body of a request with the bytes of the files that its user messages name. Synchronous; reads only.

    The bytes replace `file_data` and `image_url`, as no JSON can contain them. A body that names no file is returned
    as it is. name: the field with the messages.
    Raises NotFound (file_not_found), also for a file of another user, and InvalidInput (files_too_large).
    """
    items = body.get(name) if isinstance(body, Mapping) else None
    if not isinstance(items, list) or len(items) > MOST_MESSAGES or not any(map(_names_file, items)):
        return body
    found = _Contents(user, name, [file_id for item in items for _, file_id in _named(item)])
    return {**body, name: [found.put_into(item) if _names_file(item) else item for item in items]}


def _names_file(item: Any) -> bool:
    return next(_named(item), None) is not None


def _named(item: Any) -> Iterator[tuple[int, str]]:
    """Yield the place and the file id of each part of a user message that names a file."""
    is_user = isinstance(item, Mapping) and item.get("role") == "user"
    content = item.get("content") if is_user else None
    for place, part in enumerate(content if isinstance(content, list) else ()):
        kind = part.get("type") if isinstance(part, Mapping) else None
        fields = part.get("file") if kind == "file" else part if kind in _NAMING else None
        if isinstance(fields, Mapping) and isinstance(file_id := fields.get("file_id"), str):
            yield place, file_id


class _Contents:
    """The contents of the files that a request names."""

    def __init__(self, user: User, name: str, file_ids: list[str]) -> None:
        ids = {file_id: _uuid(file_id) for file_id in file_ids}
        rows = user_files.find_several(user, set(filter(None, ids.values())))
        self._rows: dict[str, UserFile] = {}
        for file_id, row_id in ids.items():
            if row_id not in rows:
                raise _not_found(file_id, name)
            self._rows[file_id] = rows[row_id]
        most, _ = conf.artifact_limits()  # as if they were in the body
        if sum(self._rows[file_id].size_bytes for file_id in file_ids) > most:
            message = f"The files that the request names have more than {most:,} bytes together."
            raise invalid_param(message, name, "files_too_large")
        self._data = {file_id: user_files.read(row) for file_id, row in self._rows.items()}

    def put_into(self, item: Mapping[str, Any]) -> dict[str, Any]:
        content = list(item["content"])
        for place, file_id in _named(item):
            row, data, kind = self._rows[file_id], self._data[file_id], content[place]["type"]
            if kind == "input_image":
                content[place] = {"type": kind, "image_url": data, "filename": row.filename}
            else:
                file = {"file_data": data, "filename": row.filename}
                content[place] = {"type": kind, "file": file} if kind == "file" else {"type": kind, **file}
        return {**item, "content": content}


def _uuid(file_id: str) -> UUID | None:
    try:
        return UUID(hex=file_id.removeprefix(_PREFIX)) if file_id.startswith(_PREFIX) else None
    except ValueError:
        return None


def _not_found(file_id: str, param: str = "file_id") -> NotFound:
    return NotFound(f"There is no file {file_id!r}, or it has expired.", code="file_not_found", param=param)


def _expires_after(form: Form) -> int | None:
    """Return the seconds that the file is to be kept; None if the form does not say."""
    anchor, seconds = form.text("expires_after[anchor]"), form.text("expires_after[seconds]")
    if not anchor and not seconds:
        return None
    if anchor != "created_at":
        raise invalid_param("expires_after[anchor] must be created_at.", "expires_after[anchor]")
    fits = seconds.isascii() and seconds.isdecimal() and len(seconds) < 9
    if not fits or not LEAST_SECONDS <= int(seconds) <= MOST_SECONDS:
        message = f"expires_after[seconds] must be a number from {LEAST_SECONDS:,} to {MOST_SECONDS:,}."
        raise invalid_param(message, "expires_after[seconds]")
    return int(seconds)
