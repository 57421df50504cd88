"""Keeps the pictures of a tool's result as files of its session."""

import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from audit_app.kernel.errors import AppError
from tools_app.storage import artifacts
from tools_app.types.pictures import MOST_PICTURES, NewPicture, Picture, media_type_of


@dataclass(frozen=True)
class Owner:
    """The call whose result has the pictures. origins: of its result."""

    session_id: UUID
    agent_id: str
    tool: str
    origins: tuple[str, ...] = ()


def keep(owner: Owner, found: Sequence[NewPicture | Picture]) -> tuple[tuple[Picture, ...], list[dict[str, Any]]]:
    """Store new pictures. Return the pictures, and the description of each for the text of the result.

    What is no picture, too many or too large is described with the reason alone. Owns its transactions. A repeated call
    with the same pictures keeps their files.
    """
    kept: list[Picture] = []
    described: list[dict[str, Any]] = []
    for picture in found:
        if isinstance(picture, NewPicture):
            stored = _problem(picture, len(kept)) or _store(owner, picture)
            if isinstance(stored, str):
                described.append({"not_shown": stored, "bytes": len(picture.data)})
                continue
            picture = stored
        kept.append(picture)
        described.append({"path": picture.path, "media_type": picture.media_type, "bytes": picture.size_bytes})
    return tuple(kept), described


def _problem(picture: NewPicture, count: int) -> str:
    if count >= MOST_PICTURES:
        return f"a result shows at most {MOST_PICTURES} pictures"
    return "" if media_type_of(picture.data) else "it is not a PNG, JPEG, GIF or WebP"


def _store(owner: Owner, picture: NewPicture) -> Picture | str:
    """Return the stored picture, or the reason why it is not stored."""
    media_type = media_type_of(picture.data)
    path = f"files/tools/{owner.tool}{mimetypes.guess_extension(media_type) or ''}"
    # Of no run: it is no file that the agent has written with its answer.
    writer = artifacts.Writer(owner.session_id, agent_id=owner.agent_id, origins=owner.origins)
    try:
        stored = artifacts.write_artifact(writer, path, picture.data, media_type=media_type, keep_existing=True)
    except AppError as error:
        return error.message.rstrip(".")
    return Picture(str(stored.id), stored.sha256, stored.path, media_type, stored.size_bytes)
