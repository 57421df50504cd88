"""Files of the caller's sessions: list, put, download, delete. What is in them is never shown in a page of ours."""

from pathlib import PurePosixPath

from django.http import HttpResponse
from django.utils.http import content_disposition_header
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.access import access_artifact, access_session
from sessions_app.surfaces.base.bodies import BodyTooLarge
from sessions_app.surfaces.rest import responses
from sessions_app.surfaces.rest.requests import UploadQuery
from sessions_app.surfaces.rest.views.base import KomandView, ok
from tools_app import conf
from tools_app.storage import artifacts

_FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
_NO_TYPE = "application/octet-stream"


class SessionArtifacts(KomandView):
    """The files of a session, by path."""

    def get(self, request: Request, session_id: str) -> Response:
        session, page = access_session(self.principal.user, session_id), self.page()
        rows = artifacts.list_artifacts(session.id)
        shown = rows[page.offset : page.offset + page.size]
        return ok([responses.artifact(row, session.key) for row in shown], page.meta(len(rows)))

    def post(self, request: Request, session_id: str) -> Response:
        """The body is the file; Content-Type says of what kind it is. Agents read it with `read_artifact`. The answer
        tells its path, which is another one than was asked for when a file is in the way."""
        session = access_session(self.principal.user, session_id)
        asked = self.query(UploadQuery).validated_data
        kind = (request.content_type or "").partition(";")[0].strip().lower()
        if kind in _FORMS:  # the file is the body, not a part of it
            raise UnsupportedMediaType(kind)
        media_type = "" if kind == _NO_TYPE else kind
        stored = artifacts.write_artifact(
            session.id,
            asked["path"],
            _body(request),
            run_id=None,
            agent_id="",
            media_type=media_type,
            keep_existing=not asked["replace"],
        )
        return ok(responses.artifact(stored, session.key))


class ArtifactDetail(KomandView):
    """One file."""

    def get(self, request: Request, artifact_id: str) -> HttpResponse:
        """Its bytes. Browsers store them and neither show nor run them."""
        artifact = access_artifact(self.principal.user, artifact_id)
        artifact, data = artifacts.read_artifact(artifact.session_id, artifact.path)
        name = PurePosixPath(artifact.path).name
        headers = {
            "Content-Disposition": content_disposition_header(True, name) or "attachment",
            "X-Content-Type-Options": "nosniff",
        }
        return HttpResponse(data, content_type=artifact.media_type, headers=headers)

    def delete(self, request: Request, artifact_id: str) -> Response:
        artifact = access_artifact(self.principal.user, artifact_id)
        artifacts.delete_artifact(artifact.session_id, artifact.path)
        return ok(None)


def _body(request: Request) -> bytes:
    """The bytes as they come, up to the size a file may have."""
    most, _ = conf.artifact_limits()
    body: bytes = request._request.read(most + 1)
    if len(body) > most:
        raise BodyTooLarge
    return body
