"""Files that the caller uploads for a message: upload, read, delete. Once sent, they are artifacts of the session.

The content of a sent file, also of a channel's message, is read by its own route, with the right to see sessions of
others, too.
"""

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.kernel.errors import NotFound
from sessions_app.access import access_sent_file, access_unsent_file
from sessions_app.attachments import file_parts, uploads
from sessions_app.rights import VIEW_SESSIONS
from sessions_app.surfaces.rest import responses
from sessions_app.surfaces.rest.requests import AttachmentQuery
from sessions_app.surfaces.rest.views.base import RestView, download, ok


class AttachmentList(RestView):
    """Files for messages. The body is the file; its type is read from its bytes."""

    def post(self, request: Request) -> Response:
        filename = self.query(AttachmentQuery).validated_data["filename"]
        data, _ = self.file_body()
        return ok(responses.AttachmentOut.of(uploads.upload(self.principal.user, filename, data)))


class AttachmentDetail(RestView):
    """One file that is not sent."""

    def get(self, request: Request, attachment_id: str) -> Response:
        return ok(responses.AttachmentOut.of(access_unsent_file(self.principal.user, attachment_id)))

    def delete(self, request: Request, attachment_id: str) -> Response:
        uploads.discard(access_unsent_file(self.principal.user, attachment_id))
        return ok(None)


class AttachmentContent(RestView):
    """The content of a file that is in a message."""

    def get(self, request: Request, file_id: str) -> HttpResponse:
        row = access_sent_file(self.principal.user, file_id, needs=VIEW_SESSIONS)
        try:
            data = file_parts.load(str(row.pk))
        except NotFound:
            raise NotFound("The file is not here: it was not fetched, was replaced, or is no longer kept.") from None
        return download(data, row.mime_type, row.filename or row.kind)
