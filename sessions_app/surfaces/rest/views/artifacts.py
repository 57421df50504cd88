"""Artifacts of the caller's sessions: list, upload, download, delete. Browsers are never wanted to render them."""

from pathlib import PurePosixPath

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.access import access_artifact, access_session
from sessions_app.surfaces.rest import responses
from sessions_app.surfaces.rest.requests import UploadQuery
from sessions_app.surfaces.rest.views.base import RestView, download, ok
from tools_app.storage import artifacts


class SessionArtifacts(RestView):
    """The files of a session, by path."""

    def get(self, request: Request, session_id: str) -> Response:
        session = access_session(self.principal.user, session_id)
        rows = artifacts.list_artifacts(session.id)
        return self.page_of(rows, lambda row: responses.artifact(row, session.key))

    def post(self, request: Request, session_id: str) -> Response:
        """Store the body as a file of the type that Content-Type names. Agents read it with `read_artifact`.

        If the path is taken and `replace` is not set, the file gets another path; see the answer.
        """
        session = access_session(self.principal.user, session_id)
        wanted = self.query(UploadQuery).validated_data
        data, media_type = self.file_body()
        writer, keep_existing = artifacts.Writer(session.id), not wanted["replace"]
        stored = artifacts.write_artifact(
            writer, wanted["path"], data, media_type=media_type, keep_existing=keep_existing
        )
        return ok(responses.artifact(stored, session.key))


class ArtifactDetail(RestView):
    """One file."""

    def get(self, request: Request, artifact_id: str) -> HttpResponse:
        """The content, as an attachment: browsers save it and do not render it."""
        artifact = access_artifact(self.principal.user, artifact_id)
        artifact, data = artifacts.read_artifact(artifact.session_id, artifact.path)
        return download(data, artifact.media_type, PurePosixPath(artifact.path).name)

    def delete(self, request: Request, artifact_id: str) -> Response:
        artifact = access_artifact(self.principal.user, artifact_id)
        artifacts.delete_artifact(artifact.session_id, artifact.path)
        return ok(None)
