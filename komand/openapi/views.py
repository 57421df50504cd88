"""GET /api/schema: the OpenAPI document, as JSON or YAML."""

from collections.abc import Callable
from functools import cache
from typing import Any, cast

from django.http import HttpResponse
from django.utils.module_loading import import_string
from rest_framework import serializers
from rest_framework.request import Request

from sessions_app.surfaces.base.openapi.operations import Answer, Operation
from sessions_app.surfaces.base.openapi.schemas import just
from sessions_app.surfaces.rest.views.base import RestView

_WRITTEN = "komand.openapi.document.written"
_DOCUMENT = Answer("This document.", {"type": "object", "properties": {"openapi": just("3.1.0")}})
_TYPES = {"json": "application/json", "yaml": "application/yaml"}


class FormatQuery(serializers.Serializer[Any]):
    format = serializers.ChoiceField(
        choices=sorted(_TYPES), required=False, help_text="The format; also chosen by Accept."
    )


class OpenApi(RestView):
    """The document of all surfaces. It needs no login, because it has no data of the installation."""

    is_public = True

    @Operation("Read this document", access="open", query=FormatQuery, answers={200: _DOCUMENT})
    def get(self, request: Request) -> HttpResponse:
        accepted = "yaml" if "yaml" in request.headers.get("Accept", "") else "json"
        wanted = self.query().get("format", accepted)
        return HttpResponse(_written(wanted), content_type=_TYPES[wanted])


@cache
def _written(kind: str) -> bytes:
    """Return the document as bytes. The generator is imported at the first request: most processes never need it."""
    write = cast(Callable[[str], bytes], import_string(_WRITTEN))
    return write(kind)
