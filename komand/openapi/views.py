"""GET /api/schema: the OpenAPI document, as JSON or YAML."""

from collections.abc import Callable
from functools import cache
from typing import Any, cast

from django.http import HttpResponse
from django.utils.module_loading import import_string
from rest_framework import serializers
from rest_framework.request import Request

from sessions_app.surfaces.rest.views.base import RestView

_WRITTEN = "komand.openapi.document.written"
_TYPES = {"json": "application/json", "yaml": "application/yaml"}


class FormatQuery(serializers.Serializer[Any]):
    format = serializers.ChoiceField(choices=sorted(_TYPES), default="json")


class OpenApi(RestView):
    """The document of all surfaces. It needs no login, because it has no data of the installation."""

    is_public = True

    def get(self, request: Request) -> HttpResponse:
        wanted = self.query(FormatQuery).validated_data["format"]
        if "format" not in request.query_params and "yaml" in request.headers.get("Accept", ""):
            wanted = "yaml"
        return HttpResponse(_written(wanted), content_type=_TYPES[wanted])


@cache
def _written(kind: str) -> bytes:
    """Return the document as bytes. The generator is imported at the first request: most processes never need it."""
    write = cast(Callable[[str], bytes], import_string(_WRITTEN))
    return write(kind)
