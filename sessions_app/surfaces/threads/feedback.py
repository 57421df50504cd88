"""Feedback of people on their threads and the messages in them: at most one opinion of each."""

from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from agents_app.models import Run
from audit_app import services as audit
from audit_app.kernel.errors import NotFound
from sessions_app.access import access_session
from sessions_app.models import Feedback, Session, Turn


def submit(user: User, fields: dict[str, Any]) -> tuple[Feedback, bool]:
    """Store an opinion, or change the one there is. fields: of FeedbackBody. Returns it, and whether it is new.

    Raises NotFound for what is not the user's.
    """
    session = _session_of(user, fields["target_type"], fields["target_id"])
    target = {"user": user, "target_type": fields["target_type"], "target_id": fields["target_id"]}
    said = {
        "rating": fields["rating"],
        "reason": fields["reason"] or "",
        "comment": fields["comment"] or "",
        "extra_metadata": fields["extra_metadata"] or {},
        "updated_at": timezone.now(),
    }
    try:
        with transaction.atomic():
            if Feedback.objects.filter(**target).update(**said):
                return Feedback.objects.get(**target), False
            row = Feedback.objects.create(**target, **said, session=session, created_at=said["updated_at"])
            told = {name: str(fields[name] or "") for name in ("target_type", "target_id", "rating", "reason")}
            audit.record(
                "FeedbackSubmitted",
                details=told,
                agent_id=session.agent.agent_id,
                session_id=session.id,
                session_key=session.key,
            )
            return row, True
    except IntegrityError:  # the same person's other click
        Feedback.objects.filter(**target).update(**said)
        return Feedback.objects.get(**target), False


def list_feedback(user: User, *, mine: bool) -> "QuerySet[Feedback]":
    """The user's own opinions; operators see everybody's unless they want `mine`. Not read yet."""
    return Feedback.objects.all() if user.is_staff and not mine else Feedback.objects.filter(user=user)


def delete(user: User, feedback_id: UUID) -> None:
    """Raises NotFound, also for another's opinion, which operators may delete."""
    if not list_feedback(user, mine=False).filter(pk=feedback_id).delete()[0]:
        raise NotFound("There is no such feedback.")


def _session_of(user: User, target_type: str, target_id: UUID) -> Session:
    if target_type == "THREAD":
        return access_session(user, target_id)
    if target_type == "MESSAGE":
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
