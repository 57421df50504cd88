"""Marks of sessions in their owner's list: pinned on top, read or unread."""

from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from audit_app.kernel.errors import Conflict
from sessions_app.models import Session

MOST_PINNED = 20
_BEFORE = timedelta(seconds=1)


def pin_session(owner: User, session: Session, *, is_pinned: bool) -> None:
    """Put a session on top of its owner's list, or take it down. Idempotent. Raises Conflict (too_many_pinned)."""
    with transaction.atomic():
        pinned = Session.objects.filter(owner=owner, deleted_at=None, pinned_at__isnull=False).exclude(pk=session.pk)
        if is_pinned and pinned.count() >= MOST_PINNED:
            raise Conflict(f"You have pinned {MOST_PINNED} chats. Unpin one of them first.", code="too_many_pinned")
        Session.objects.filter(pk=session.pk).update(pinned_at=timezone.now() if is_pinned else None)


def mark_session(session: Session, *, is_read: bool) -> None:
    """Mark a session as read now, or as unread."""
    read_at = timezone.now() if is_read else session.created_at - _BEFORE
    Session.objects.filter(pk=session.pk).update(read_at=read_at)


def is_unread(session: Session) -> bool:
    """Return whether something was written since its owner has left it. One that was never left counts as read."""
    return session.read_at is not None and session.last_active_at > session.read_at
