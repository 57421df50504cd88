"""The files of attachments in the store of files. A file's name is made of its attachment's id alone."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import IO
from uuid import UUID

from asgiref.sync import sync_to_async

from audit_app.kernel.errors import Unavailable
from sessions_app.attachments import file_content
from sessions_app.attachments.model_text import Content
from sessions_app.platforms.base import MIB, FetchError
from tools_app.storage import file_store

# The database is usually on the same disk: files of strangers must not fill it.
_LEAST_FREE_BYTES = 500 * MIB


def path_of(attachment_id: UUID) -> str:
    """Return the path of an attachment's file, as its row has it."""
    return f"{attachment_id.hex[-2:]}/{attachment_id}"


def name_of(path: str) -> str:
    """Return the name in the store for the path of a row."""
    return f"attachments/{path}"


async def store(attachment_id: UUID, pieces: AsyncGenerator[bytes, None]) -> tuple[int, Content]:
    """Write a file from its pieces; return its size in bytes and its content. Idempotent. Raises FetchError."""
    name, size = name_of(path_of(attachment_id)), 0
    await sync_to_async(_check_room, thread_sensitive=False)()
    with file_store.current().open_draft(name) as draft:
        async with aclosing(pieces):
            async for piece in pieces:
                size += await sync_to_async(draft.write, thread_sensitive=False)(piece)
        return size, await sync_to_async(_keep, thread_sensitive=False)(draft, name)


def store_whole(attachment_id: UUID, data: bytes) -> None:
    """Write a file at once. Raises FetchError, Unavailable."""
    _check_room()
    file_store.current().write(name_of(path_of(attachment_id)), data)


def read(path: str) -> bytes:
    """Return the content of a row's file. Raises NotFound, Unavailable."""
    return file_store.current().read(name_of(path))


def drop(*paths: str) -> None:
    """Delete files, and the partial downloads of this machine. Raises Unavailable."""
    file_store.current().remove(*map(name_of, paths))


def check() -> None:
    """Raise Unavailable if files cannot be deleted just now."""
    file_store.current().check()


def discard(path: str) -> None:
    """Delete a file that nothing refers to. If that fails it is left, which is logged."""
    file_store.current().discard(name_of(path))


def _keep(draft: IO[bytes], name: str) -> Content:
    draft.seek(0)
    content = file_content.read(draft.read())
    try:
        file_store.current().keep(draft, name)
    except Unavailable as error:
        raise FetchError(error.message, is_final=False) from error
    return content


def _check_room() -> None:
    if not file_store.current().has_room(_LEAST_FREE_BYTES):
        raise FetchError("the disk is full", is_final=True)
