"""Links to files and answers of sessions for people in chats: signed, for one of them, until they expire."""

from datetime import timedelta
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import jwt
from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import IntegerField, OuterRef, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils import timezone
from django.utils.http import content_disposition_header

from audit_app.kernel.errors import NotFound, Unavailable
from sessions_app.conversation.citations import unnumbered
from sessions_app.models import IS_LINKED, Pairing, SenderLink, Session, Turn
from tools_app.storage import artifacts
from tools_app.storage.artifacts import ArtifactView

PREFIX = "channels/files"
_FILE, _ANSWER, _ALGORITHM = "komand:channel-file", "komand:channel-answer", "HS256"
_PRIVATE = {"Cache-Control": "private, no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"}
_USER = "user"
_INVALID = "This link is invalid or has expired. Ask for a new one."
_TEXT = "text/plain; charset=utf-8"


def make(artifact_id: UUID, session_id: UUID) -> str:
    """Return an absolute link to a file of a session; empty if the installation has no public address."""
    return _make(artifact_id, _FILE, session_id)


def make_for_answer(run_id: UUID, session_id: UUID) -> str:
    """Return an absolute link to the text of a run's answer; empty if the installation has no public address."""
    return _make(run_id, _ANSWER, session_id)


def _make(subject: UUID, audience: str, session_id: UUID) -> str:
    if not settings.KOMAND_PUBLIC_URL:
        return ""
    expiry = timezone.now() + timedelta(hours=settings.KOMAND_FILE_LINK_HOURS)
    claims = {"sub": str(subject), "aud": audience, "exp": expiry, _USER: _find_user(session_id)}
    return f"{settings.KOMAND_PUBLIC_URL}/{PREFIX}/{jwt.encode(claims, settings.KOMAND_JWT_KEY, algorithm=_ALGORITHM)}"


def _find_user(session_id: UUID) -> int | None:
    """Return the user of a session: its owner, or the one whom its sender is linked or paired with."""
    sender = {
        "account__channel__iexact": OuterRef("channel"),
        "account__account_id": OuterRef("account_id"),
        "sender_id": OuterRef("sender_id"),
    }
    linked = SenderLink.objects.filter(IS_LINKED, **sender).order_by().values("user_id")[:1]
    paired = Pairing.objects.filter(**sender).order_by().values("user_id")[:1]
    user = Coalesce("owner_id", Subquery(linked), Subquery(paired), output_field=IntegerField())
    return Session.objects.filter(pk=session_id).values_list(user, flat=True).first()


def _read_link(token: str) -> tuple[str, UUID]:
    """Return the audience and the subject of a link. Raises NotFound, also for an expired one.

    A link ends with its user, who may be deactivated or deleted.
    """
    checks: Any = {"algorithms": [_ALGORITHM], "audience": [_FILE, _ANSWER], "options": {"require": ["sub", "exp"]}}
    try:
        claims = jwt.decode(token, settings.KOMAND_JWT_KEY, **checks)
        audience, subject, user_id = str(claims["aud"]), UUID(claims["sub"]), claims.get(_USER)
    except (jwt.InvalidTokenError, ValueError):
        raise NotFound(_INVALID) from None
    if user_id is not None and not User.objects.filter(pk=user_id, is_active=True).exists():
        raise NotFound(_INVALID)
    return audience, subject


def _read_answer(run_id: UUID) -> str:
    """Return the texts of a run, as Markdown. Raises NotFound, also for a deleted session."""
    turns = Turn.objects.filter(run_id=run_id, role="assistant", session__deleted_at=None).order_by("ordinal", "part")
    if texts := [unnumbered(text) for text in turns.values_list("content", flat=True) if text]:
        return "\n\n".join(texts)
    raise NotFound("There is no such answer.")


def _read_file(artifact_id: UUID) -> tuple[ArtifactView, bytes]:
    """Return a file and its content. Raises NotFound, also for a deleted session."""
    artifact = artifacts.get_artifact(artifact_id)
    if not Session.objects.filter(pk=artifact.session_id, deleted_at=None).exists():
        raise NotFound("There is no such file.")
    return artifacts.read_artifact(artifact.session_id, artifact.path)


def download(request: HttpRequest, token: str) -> HttpResponse:
    """Return an answer as plain text, or a file as an attachment: browsers save it and do not render it."""
    try:
        audience, subject = _read_link(token)
        if audience == _ANSWER:
            return HttpResponse(_read_answer(subject), content_type=_TEXT, headers=_PRIVATE)
        artifact, content = _read_file(subject)
    except NotFound as error:
        return HttpResponse(error.message, status=403, content_type=_TEXT)
    except Unavailable as error:
        return HttpResponse(error.message, status=503, content_type=_TEXT, headers=_PRIVATE)
    disposition = content_disposition_header(True, PurePosixPath(artifact.path).name) or "attachment"
    return HttpResponse(
        content, content_type=artifact.media_type, headers={**_PRIVATE, "Content-Disposition": disposition}
    )


urlpatterns = [path(f"{PREFIX}/<str:token>", download, name="channel-file")]
