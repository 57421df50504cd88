"""Links to files of sessions for people in chats: signed, for one file, until they expire."""

from datetime import timedelta
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import jwt
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils import timezone
from django.utils.http import content_disposition_header

from audit_app.kernel.errors import NotFound
from sessions_app.models import Session
from tools_app.storage import artifacts
from tools_app.storage.artifacts import ArtifactView

PREFIX = "channels/files"
_AUDIENCE, _ALGORITHM = "komand:channel-file", "HS256"


def make(artifact_id: UUID) -> str:
    """Return an absolute link to a file; empty if the installation has no public address."""
    if not settings.KOMAND_PUBLIC_URL:
        return ""
    expiry = timezone.now() + timedelta(hours=settings.KOMAND_FILE_LINK_HOURS)
    claims = {"sub": str(artifact_id), "aud": _AUDIENCE, "exp": expiry}
    return f"{settings.KOMAND_PUBLIC_URL}/{PREFIX}/{jwt.encode(claims, settings.KOMAND_JWT_KEY, algorithm=_ALGORITHM)}"


def read(token: str) -> tuple[ArtifactView, bytes]:
    """Return the file of a link and its content. Raises NotFound, also for an expired link or a deleted session."""
    required: Any = {"require": ["sub", "aud", "exp"]}
    try:
        claims = jwt.decode(
            token, settings.KOMAND_JWT_KEY, algorithms=[_ALGORITHM], audience=_AUDIENCE, options=required
        )
        artifact = artifacts.get_artifact(UUID(claims["sub"]))
    except (jwt.InvalidTokenError, ValueError):
        raise NotFound("This link is invalid or has expired. Ask for the file again.") from None
    if not Session.objects.filter(pk=artifact.session_id, deleted_at=None).exists():
        raise NotFound("There is no such file.")
    return artifacts.read_artifact(artifact.session_id, artifact.path)


def download(request: HttpRequest, token: str) -> HttpResponse:
    """Return the file as an attachment: browsers save it and do not render it."""
    try:
        artifact, content = read(token)
    except NotFound as error:
        return HttpResponse(error.message, status=403, content_type="text/plain; charset=utf-8")
    headers = {
        "Content-Disposition": content_disposition_header(True, PurePosixPath(artifact.path).name) or "attachment",
        "Cache-Control": "private, no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
    return HttpResponse(content, content_type=artifact.media_type, headers=headers)


urlpatterns = [path(f"{PREFIX}/<str:token>", download, name="channel-file")]
