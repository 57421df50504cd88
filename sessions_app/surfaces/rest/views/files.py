"""Files: those of the caller's sessions (artifacts), and those that are uploaded for a message (attachments).

Once sent, an attachment is an artifact of the session. The content of a sent file, also of a channel's message, is read
by its own route, with the right to see sessions of others, too. Browsers are never wanted to render files.
"""

from pathlib import PurePosixPath

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.kernel.errors import NotFound
from sessions_app.access import access_artifact, access_sent_file, access_session, access_unsent_file
from sessions_app.attachments import file_parts, uploads
from sessions_app.rights import VIEW_SESSIONS
from sessions_app.surfaces.base.downloads import download
from sessions_app.surfaces.base.openapi.operations import Answer, Operation
from sessions_app.surfaces.base.openapi.schemas import BINARY
from sessions_app.surfaces.rest.objects.files import ArtifactOut, AttachmentOut, AttachmentQuery, UploadQuery
from sessions_app.surfaces.rest.operations import paged
from sessions_app.surfaces.rest.views.base import RestView, ok
from tools_app.storage import artifacts

_CONTENT = Answer("The content, as an attachment.", media_type="*/*")


class SessionArtifacts(RestView):
    """The files of a session, by path."""

    @paged("List the files of a session", ArtifactOut)
    def get(self, request: Request, session_id: str) -> Response:
        session = access_session(self.principal.user, session_id, needs=VIEW_SESSIONS)
        rows = artifacts.list_artifacts(session.id)
        return self.page_of(rows, lambda row: ArtifactOut.of(row, session_id=session.key))

    @Operation("Upload a file to a session", ArtifactOut, body=BINARY, media_type="*/*", query=UploadQuery)
    def post(self, request: Request, session_id: str) -> Response:
        """Store the body as a file of the type that Content-Type names. Agents read it with `read_artifact`.

        If the path is taken and `replace` is not set, the file gets another path; see the answer.
        """
        session = access_session(self.principal.user, session_id)
        wanted = self.query()
        data, media_type = self.file_body()
        writer, keep_existing = artifacts.Writer(session.id), not wanted["replace"]
        stored = artifacts.write_artifact(
            writer, wanted["path"], data, media_type=media_type, keep_existing=keep_existing
        )
        return ok(ArtifactOut.of(stored, session_id=session.key))


class ArtifactDetail(RestView):
    """One file."""

    @Operation("Download a file", answers={200: _CONTENT})
    def get(self, request: Request, artifact_id: str) -> HttpResponse:
        """The content, as an attachment: browsers save it and do not render it."""
        artifact = access_artifact(self.principal.user, artifact_id, needs=VIEW_SESSIONS)
        artifact, data = artifacts.read_artifact(artifact.session_id, artifact.path)
        return download(data, artifact.media_type, PurePosixPath(artifact.path).name)

    @Operation("Delete a file")
    def delete(self, request: Request, artifact_id: str) -> Response:
        artifact = access_artifact(self.principal.user, artifact_id)
        artifacts.delete_artifact(artifact.session_id, artifact.path)
        return ok(None)


class AttachmentList(RestView):
    """Files for messages. The body is the file; its type is read from its bytes."""

    @Operation(
        "Upload a file for a message",
        AttachmentOut,
        body=BINARY,
        media_type="*/*",
        query=AttachmentQuery,
        description="Send its id in `attachments` of a message within a day.",
    )
    def post(self, request: Request) -> Response:
        filename = self.query()["filename"]
        data, _ = self.file_body()
        return ok(AttachmentOut.of(uploads.upload(self.principal.user, filename, data)))


class AttachmentDetail(RestView):
    """One file that is not sent."""

    @Operation("Read a file that is not sent", AttachmentOut)
    def get(self, request: Request, attachment_id: str) -> Response:
        return ok(AttachmentOut.of(access_unsent_file(self.principal.user, attachment_id)))

    @Operation("Delete a file that is not sent")
    def delete(self, request: Request, attachment_id: str) -> Response:
        uploads.discard(access_unsent_file(self.principal.user, attachment_id))
        return ok(None)


class AttachmentContent(RestView):
    """The content of a file that is in a message."""

    @Operation("Download a file of a message", answers={200: _CONTENT})
    def get(self, request: Request, file_id: str) -> HttpResponse:
        row = access_sent_file(self.principal.user, file_id, needs=VIEW_SESSIONS)
        try:
            data = file_parts.load(str(row.pk))
        except NotFound:
            raise NotFound("The file is not available: it was not downloaded, was replaced, or has expired.") from None
        return download(data, row.mime_type, row.filename or row.kind)
