"""Request bodies that are not messages, and the files of a form."""

from io import BytesIO
from urllib.parse import quote

from django.core.files.uploadhandler import TemporaryFileUploadHandler
from django.http.multipartparser import MultiPartParser, MultiPartParserError
from rest_framework import serializers
from rest_framework.exceptions import UnsupportedMediaType

from audit_app.kernel.errors import InvalidInput
from sessions_app.platforms.base import WebhookRequest
from sessions_app.surfaces.base.serializers import CamelCaseSerializer

_LONGEST_ENCODED = 180
_ID = r"^[A-Za-z0-9_-]{1,64}$"


def _check_fits(user_id: str) -> None:
    """Raise ValidationError for an id that is too long as a part of a session's id."""
    if len(quote(user_id, safe="")) > _LONGEST_ENCODED:
        raise serializers.ValidationError(f"It has more than {_LONGEST_ENCODED} characters when percent-encoded.")


class OpenBody(CamelCaseSerializer):
    user_id = serializers.CharField(
        max_length=120,
        default="",
        allow_null=True,
        allow_blank=True,
        trim_whitespace=False,  # the hash is of the id as it is
        validators=[_check_fits],
        help_text="Id of the user on the site.",
    )
    user_hash = serializers.CharField(
        max_length=64, default="", allow_null=True, allow_blank=True, help_text="Hex HMAC-SHA256 of the user's id."
    )
    name = serializers.CharField(
        max_length=200, default="", allow_null=True, allow_blank=True, help_text="Name of the visitor, shown to users."
    )
    conversation_id = serializers.RegexField(
        _ID,
        max_length=64,
        default="",
        allow_null=True,
        allow_blank=True,
        help_text="Id of an earlier conversation of the visitor.",
    )


def read_upload(request: WebhookRequest) -> tuple[str, bytes]:
    """Return the name and the content of the form's file. Raises InvalidInput, UnsupportedMediaType."""
    if request.media_type != "multipart/form-data":
        raise UnsupportedMediaType(request.media_type)
    meta = {"CONTENT_TYPE": request.header("content-type"), "CONTENT_LENGTH": str(len(request.body))}
    try:
        parser = MultiPartParser(meta, BytesIO(request.body), [TemporaryFileUploadHandler()], "utf-8")
        _, files = parser.parse()
    except MultiPartParserError as error:
        raise InvalidInput(f"The form is malformed: {error}", code="malformed_form") from None
    file = files.get("file")
    if file is None:
        raise InvalidInput("The form has no file in the field `file`.", code="no_file")
    with file:
        return file.name or "", file.read()
