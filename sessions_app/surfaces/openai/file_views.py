"""Views of files: `/v1/files`."""

from typing import Any

from django.http import HttpResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.kernel.errors import NotFound
from sessions_app.attachments import user_files
from sessions_app.surfaces.base.downloads import download
from sessions_app.surfaces.base.forms import MULTIPART, FormBody, form_of
from sessions_app.surfaces.base.openapi.operations import Answer, Operation
from sessions_app.surfaces.base.openapi.schemas import BINARY, TEXT, Schema, about, one_of, ref
from sessions_app.surfaces.base.views import PlainView
from sessions_app.surfaces.openai import files

_MOST_LISTED = 10_000
_FORM: Schema = {
    "type": "object",
    "required": ["file", "purpose"],
    "properties": {
        "file": BINARY,
        "purpose": one_of(files.PURPOSES),
        "expires_after[anchor]": one_of(["created_at"]),
        "expires_after[seconds]": about(TEXT, f"From {files.LEAST_SECONDS} to {files.MOST_SECONDS}."),
    },
}


class FileQuery(serializers.Serializer[Any]):
    """The query of a list of files."""

    limit = serializers.IntegerField(default=_MOST_LISTED, min_value=1, max_value=_MOST_LISTED)
    order = serializers.ChoiceField(choices=["asc", "desc"], default="desc", help_text="By the time of the upload.")
    after = serializers.CharField(default="", allow_blank=True, max_length=100, help_text="Id of the file before.")
    purpose = serializers.CharField(default="", allow_blank=True, max_length=100)


class FileList(PlainView):
    parser_classes = (FormBody,)

    @Operation("List the files", ref("FileList"), query=FileQuery, errors=[404])
    def get(self, request: Request) -> Response:
        wanted, user = self.query(), self.principal.user
        rows = user_files.files_of(user)
        if wanted["purpose"]:
            rows = rows.filter(purpose=wanted["purpose"])
        is_falling = wanted["order"] == "desc"
        if wanted["after"]:
            last = files.find(user, wanted["after"]).pk
            rows = rows.filter(pk__lt=last) if is_falling else rows.filter(pk__gt=last)
        found = list(rows.order_by("-id" if is_falling else "id")[: wanted["limit"] + 1])
        shown = [files.as_object(row) for row in found[: wanted["limit"]]]
        first, last_id = (shown[0]["id"], shown[-1]["id"]) if shown else (None, None)
        page = {"object": "list", "data": shown, "first_id": first, "last_id": last_id}
        return Response({**page, "has_more": len(found) > wanted["limit"]})

    @Operation(
        "Upload a file",
        ref("File"),
        body=_FORM,
        media_type=MULTIPART,
        description="It is kept until it expires. Name it by `file_id` in the messages of requests.",
    )
    def post(self, request: Request) -> Response:
        return Response(files.as_object(files.upload(self.principal.user, form_of(request))))


class FileDetail(PlainView):
    @Operation("Read about a file", ref("File"))
    def get(self, request: Request, file_id: str) -> Response:
        return Response(files.as_object(files.find(self.principal.user, file_id)))

    @Operation("Delete a file", ref("FileDeleted"), description="Messages keep their copies.")
    def delete(self, request: Request, file_id: str) -> Response:
        row = files.find(self.principal.user, file_id)
        user_files.delete(row)
        return Response({"id": files.as_object(row)["id"], "object": "file", "deleted": True})


class FileContent(PlainView):
    @Operation("Download a file", answers={200: Answer("The content, as an attachment.", media_type="*/*")})
    def get(self, request: Request, file_id: str) -> HttpResponse:
        row = files.find(self.principal.user, file_id)
        try:
            return download(user_files.read(row), row.mime_type, row.filename)
        except NotFound:
            raise NotFound("The content of the file is not available.", code="file_not_found") from None
