"""Feedback of users on sessions and messages, at most one rating of a target per user.

`channels.inbound.changes` stores that of senders on channels.
"""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from agents_app.models import Run
from audit_app import services as audit
from audit_app.kernel.errors import InvalidInput, NotFound
from audit_app.rights import holds, require
from sessions_app.access import access_session
from sessions_app.models import Feedback, Session, Turn
from sessions_app.rights import DELETE_FEEDBACK, VIEW_FEEDBACK

LONGEST_COMMENT = 4000
_MESSAGE = "MESSAGE"


def submit(user: User, fields: dict[str, Any]) -> tuple[Feedback, bool]:
    """Store or update a rating. Return it, and whether it is new. Runs in a transaction of its own.

    fields: target_type, target_id, rating, reason, comment, extra_metadata; the last three may be None.
    Raises NotFound for a target that is not the user's.
    """
    session = _session_of(user, fields["target_type"], fields["target_id"])
    rating = _columns(fields)
    with transaction.atomic():
        row, is_new = Feedback.objects.update_or_create(
            user=user,
            target_type=fields["target_type"],
            target_id=fields["target_id"],
            defaults=rating,
            create_defaults={**rating, "session": session, "created_at": rating["updated_at"]},
        )
        if is_new:
            _record(session, fields)
    return row, is_new


def _columns(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "rating": fields["rating"],
        "reason": fields["reason"] or "",
        "comment": fields["comment"] or "",
        "extra_metadata": fields["extra_metadata"] or {},
        "updated_at": timezone.now(),
    }


def _record(session: Session, fields: dict[str, Any]) -> None:
    audit.record(
        "FeedbackSubmitted",
        details={name: str(fields[name] or "") for name in ("target_type", "target_id", "rating", "reason")},
        agent_id=session.agent.agent_id,
        session_id=session.id,
        session_key=session.key,
    )


def rate_answer(user: User, run_id: UUID, *, rating: str, comment: str | None = None) -> Feedback | None:
    """Store the user's rating of an answer; an empty one removes it. Return it. Owns its transaction.

    comment: None keeps the stored one while the rating stays the same. Raises NotFound, and InvalidInput
    (invalid_rating, comment_too_long).
    """
    _check(rating, comment)
    own = Feedback.objects.filter(user=user, target_type=_MESSAGE, target_id=run_id)
    if not rating:
        _session_of(user, _MESSAGE, run_id)
        own.delete()
        return None
    stored = own.filter(rating=rating).first()
    kept = stored.comment if stored and comment is None else comment
    more = {"reason": stored.reason, "extra_metadata": stored.extra_metadata} if stored else {}
    fields = {"target_type": _MESSAGE, "target_id": run_id, "rating": rating, "comment": kept}
    return submit(user, {"reason": None, "extra_metadata": None, **fields, **more})[0]


def _check(rating: str, comment: str | None) -> None:
    if rating not in ("", *(name for name, _ in Feedback.RATINGS)):
        raise InvalidInput("`rating` must be UP, DOWN or empty. Reload the page.", code="invalid_rating")
    if len(comment or "") > LONGEST_COMMENT:
        raise InvalidInput(f"A comment may have at most {LONGEST_COMMENT:,} characters.", code="comment_too_long")


def ratings_of(user: User, run_ids: Collection[UUID]) -> dict[UUID, Feedback]:
    """Return the user's ratings of these answers, by run."""
    rows = Feedback.objects.filter(user=user, target_type=_MESSAGE, target_id__in=run_ids) if run_ids else ()
    return {row.target_id: row for row in rows}


def list_feedback(user: User, *, mine: bool) -> "QuerySet[Feedback]":
    """Return the user's own feedback; with the right to see it, that of all users unless `mine`."""
    of_users = Feedback.objects.filter(user__isnull=False)
    return of_users if not mine and holds(user, VIEW_FEEDBACK) else of_users.filter(user=user)


def delete(user: User, feedback_id: UUID) -> None:
    """Delete feedback. Raises NotFound, and MissingRight for that of another user that the user may only see."""
    row = list_feedback(user, mine=False).filter(pk=feedback_id).first()
    if row is None:
        raise NotFound("There is no such feedback.")
    if row.user_id != user.pk:
        require(user, DELETE_FEEDBACK)
    row.delete()


def _session_of(user: User, target_type: str, target_id: UUID) -> Session:
    if target_type == "THREAD":
        return access_session(user, target_id)
    if target_type == _MESSAGE:
        found = (
            Run.objects.filter(pk=target_id).values_list("conversation_id", flat=True).first()
            or Turn.objects.filter(pk=target_id).values_list("session_id", flat=True).first()
        )
        if found:
            try:
                return access_session(user, found)
            except NotFound:
                pass
        raise NotFound("There is no such message.")
    raise NotFound(f"There is no such {target_type.lower().replace('_', ' ')}.")
