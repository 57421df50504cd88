"""Files that the caller uploads for a message: upload, read, delete. Once sent, they are artifacts of the session."""

from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.access import access_unsent_file
from sessions_app.attachments import uploads
from sessions_app.surfaces.rest import responses
from sessions_app.surfaces.rest.requests import AttachmentQuery
from sessions_app.surfaces.rest.views.base import RestView, ok


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
