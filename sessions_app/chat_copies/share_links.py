"""Links by which people without a login read a chat: created, listed, revoked, opened.

A link shows the chat as it was when it was created: the branch of then, without later messages and files. What somebody
else can read grows by an act of its owner alone.
"""

import secrets
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from audit_app import services as audit
from audit_app.kernel.errors import Conflict, InvalidInput, NotFound, found
from audit_app.rights import holds, require
from sessions_app.chat_copies.chat_copy import ChatCopy
from sessions_app.chat_copies.copy_reader import list_files, read_copy
from sessions_app.conversation import branches
from sessions_app.models import Session, ShareLink
from sessions_app.rights import SHARE_CHATS
from tools_app.storage import artifacts
from tools_app.storage.artifacts import ArtifactView

DAYS = (1, 7, 30, 90)
DEFAULT_DAYS = 7
MOST_LINKS = 50  # of one chat, that are not over
_TOKEN_BYTES = 32


class LinkEnded(NotFound):
    """This link was revoked or has expired."""

    code = "link_ended"


@dataclass(frozen=True)
class CreatedLink:
    """A new link. token: shown once."""

    row: ShareLink
    token: str = field(repr=False)


def create(
    session: Session, user: User, *, days: int = DEFAULT_DAYS, has_calls: bool = False, has_files: bool = False
) -> CreatedLink:
    """Create a link to a chat of the user. Raises MissingRight, InvalidInput, Conflict (too_many_links)."""
    require(user, SHARE_CHATS)
    if days not in DAYS:
        raise InvalidInput(f"A link ends after {', '.join(map(str, DAYS[:-1]))} or {DAYS[-1]} days.")
    now, token = timezone.now(), secrets.token_urlsafe(_TOKEN_BYTES)
    row = ShareLink(
        token_digest=_digest(token),
        session=session,
        owner=user,
        branch=session.active_branch,
        has_calls=has_calls,
        has_files=has_files,
        created_at=now,
        expires_at=now + timedelta(days=days),
    )
    with transaction.atomic():
        if list_links(user, session).count() >= MOST_LINKS:
            raise Conflict(f"This chat has {MOST_LINKS} links. Revoke some of them first.", code="too_many_links")
        row.save(force_insert=True)
        details = {
            "link": str(row.pk),
            "expires_at": row.expires_at.isoformat(),
            "calls": has_calls,
            "files": has_files,
        }
        _record("ShareLinkCreated", row, details, f"user:{user.pk}")
    return CreatedLink(row, token)


def list_links(user: User, session: Session | None = None) -> QuerySet[ShareLink]:
    """Return the user's links that are not over, the newest first. session: only those to it."""
    rows = ShareLink.objects.filter(owner=user, revoked_at=None, expires_at__gt=timezone.now())
    rows = rows.filter(session__deleted_at=None).select_related("session__agent")
    return rows if session is None else rows.filter(session=session)


def revoke(user: User, link_id: UUID) -> ShareLink:
    """End a link of the user, and return it. Idempotent. Raises NotFound."""
    row = ShareLink.objects.filter(pk=link_id, owner=user).select_related("session__agent").first()
    return _revoked(found(row, "There is no such link."), actor=f"user:{user.pk}")


def revoke_of_others(link_id: UUID) -> ShareLink:
    """End a link of any user for the operator who acts, and return it. Idempotent. Raises NotFound."""
    row = ShareLink.objects.filter(pk=link_id).select_related("session__agent").first()
    return _revoked(found(row, "There is no such link."))


def _revoked(row: ShareLink, actor: str = "") -> ShareLink:
    with transaction.atomic():
        if ShareLink.objects.filter(pk=row.pk, revoked_at=None).update(revoked_at=timezone.now()):
            _record("ShareLinkRevoked", row, {"link": str(row.pk)}, actor)
    return row


def find(token: str) -> ShareLink:
    """Return the link of a token. Raises NotFound; LinkEnded if it is over.

    It is over, too, when its chat is deleted, or its owner is inactive or has lost the right to share.
    """
    rows = ShareLink.objects.select_related("session__agent", "owner")
    row = found(rows.filter(token_digest=_digest(token)).first(), "There is no such link.")
    is_over = row.revoked_at or row.expires_at <= timezone.now() or row.session.deleted_at
    if is_over or row.session.owner_id != row.owner_id or not holds(row.owner, SHARE_CHATS):
        raise LinkEnded
    return row


def read(row: ShareLink) -> ChatCopy:
    """Return what a link shows."""
    shown = read_copy(row.session, among=branches.turns_of(row.session_id, row.branch), until=row.created_at)
    return shown if row.has_calls else shown.without_calls()


def read_file(row: ShareLink, file_id: UUID) -> tuple[ArtifactView, bytes]:
    """Return a file that a link shows, and its content. Raises NotFound, Unavailable."""
    offered = list_files(row.session_id, row.created_at) if row.has_files else []
    file = found(next((one for one in offered if one.id == file_id), None), "There is no such file.")
    return artifacts.read_artifact(row.session_id, file.path)


def _digest(token: str) -> str:
    return sha256(token.encode()).hexdigest()


def _record(action: str, row: ShareLink, details: dict[str, object], actor: str) -> None:
    audit.record(
        action,
        details=details,
        actor=actor,
        agent_id=row.session.agent.agent_id,
        session_id=row.session_id,
        session_key=row.session.key,
    )
