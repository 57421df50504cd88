"""GET /api/docs: the document as a page, rendered on the server."""

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
    """Return the page. It is the same for all users; its modules are imported at the first request."""
    read = cast(Callable[[], dict[str, Any]], import_string(_CHAPTERS))
    return render_to_string("openapi/reference.html", read())
