"""GET /api/docs: the document as a page to read. Rendered here, without a script."""

from collections.abc import Callable
from functools import cache
from typing import Any, cast

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.module_loading import import_string
from django.views.decorators.http import require_safe

_CHAPTERS = "komand.openapi.chapters.read_chapters"


@require_safe
def reference(request: HttpRequest) -> HttpResponse:
    return HttpResponse(_page())


@cache
def _page() -> str:
    """The same for everybody, made with the first request."""
    read = cast(Callable[[], dict[str, Any]], import_string(_CHAPTERS))
    return render_to_string("openapi/reference.html", read())
