"""Bodies of the type multipart/form-data, for views and consumers."""

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from django.core.files.uploadhandler import TemporaryFileUploadHandler
from django.http.multipartparser import MultiPartParser, MultiPartParserError
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from audit_app.kernel.errors import InvalidInput
from sessions_app.surfaces.base.bodies import BodyTooLarge
from tools_app import conf

MULTIPART = "multipart/form-data"


@dataclass(frozen=True)
class FormFile:
    name: str
    data: bytes


@dataclass(frozen=True)
class Form:
    """The fields of a form, each with its values in order, and the first file of each name."""

    fields: Mapping[str, list[str]]
    files: Mapping[str, FormFile]

    def text(self, name: str) -> str:
        """Return the last value of a field, without NUL; empty if the form has none."""
        values = self.fields.get(name)
        return values[-1].replace("\0", "") if values else ""


def read_form(content_type: str, body: bytes) -> Form:
    """Return the form of a body. Raises UnsupportedMediaType, InvalidInput (malformed_form)."""
    if (media_type := content_type.partition(";")[0].strip().lower()) != MULTIPART:
        raise UnsupportedMediaType(media_type)
    meta = {"CONTENT_TYPE": content_type, "CONTENT_LENGTH": str(len(body))}
    try:
        fields, files = MultiPartParser(meta, BytesIO(body), [TemporaryFileUploadHandler()], "utf-8").parse()
    except MultiPartParserError as error:
        raise InvalidInput(f"The form is malformed: {error}", code="malformed_form") from None
    read: dict[str, FormFile] = {}
    for name, several in files.lists():
        for file in several:
            with file:
                read.setdefault(name, FormFile(file.name or "", file.read()))
    return Form(dict(fields.lists()), read)


def form_of(request: Request) -> Form:
    """Return the form of a view's request; an empty one of a request without a body, which no parser reads."""
    return request.data if isinstance(request.data, Form) else Form({}, {})


def file_of(form: Form) -> FormFile:
    """Return the file of the field `file`. Raises InvalidInput (no_file)."""
    if "file" not in form.files:
        raise InvalidInput("The form has no file in the field `file`.", code="no_file")
    return form.files["file"]


class FormBody(BaseParser):
    """A parser of forms for views. The body may be as long as an artifact."""

    media_type = MULTIPART

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        """Return the `Form` of a body. Raises BodyTooLarge, InvalidInput."""
        most, _ = conf.artifact_limits()
        body = stream.read(most + 1)
        if len(body) > most:
            raise BodyTooLarge
        return read_form(media_type or "", body)
