"""The files of attachments, below the data folder. A file's path is made of its attachment's id alone."""

import shutil
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from uuid import UUID

from asgiref.sync import sync_to_async
from django.conf import settings

from audit_app.kernel.ids import new_id
from sessions_app.attachments import model_text
from sessions_app.attachments.model_text import Content
from sessions_app.models import Attachment
from sessions_app.platforms.base import MIB, FetchError

# The database is usually on the same disk: files of strangers must not fill it.
_LEAST_FREE_BYTES = 500 * MIB


def folder() -> Path:
    return Path(settings.DATA_DIR) / "attachments"


def path_of(attachment_id: UUID) -> str:
    """Return the path of an attachment's file, relative to the folder."""
    return f"{attachment_id.hex[-2:]}/{attachment_id}"


async def store(attachment_id: UUID, pieces: AsyncGenerator[bytes, None]) -> tuple[int, Content]:
    """Write a file from its pieces; return its size in bytes and its content. Idempotent. Raises FetchError."""
    target, size = folder() / path_of(attachment_id), 0
    await sync_to_async(_prepare, thread_sensitive=False)(target)
    # A process that was taken for dead may be writing the file, too.
    partial = target.with_name(f"{target.name}.{new_id().hex}.part")
    try:
        with partial.open("wb") as file:
            async with aclosing(pieces):
                async for piece in pieces:
                    size += await sync_to_async(file.write, thread_sensitive=False)(piece)
        content = await sync_to_async(lambda: model_text.read(partial.read_bytes()), thread_sensitive=False)()
        partial.replace(target)
        return size, content
    finally:
        partial.unlink(missing_ok=True)


def store_whole(attachment_id: UUID, data: bytes) -> None:
    """Write a file at once. Raises FetchError."""
    target = folder() / path_of(attachment_id)
    _prepare(target)
    target.write_bytes(data)


def place_of(row: Attachment) -> Path:
    """Return the place of the row's file on disk."""
    return folder() / row.path


def drop(path: str) -> None:
    """Delete the file and its partial downloads."""
    target = folder() / path
    for file in (target, *target.parent.glob(f"{target.name}.*.part")):
        file.unlink(missing_ok=True)


def _prepare(target: Path) -> None:
    folder().mkdir(mode=0o700, exist_ok=True)
    target.parent.mkdir(mode=0o700, exist_ok=True)
    if shutil.disk_usage(target.parent).free < _LEAST_FREE_BYTES:
        raise FetchError("the disk is full", is_final=True)
