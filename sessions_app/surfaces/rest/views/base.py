"""The base class of the REST views: answers in the envelope, and lists in pages."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rest_framework.response import Response

from sessions_app.surfaces.base.views import PlainView
from sessions_app.surfaces.rest import envelope
from sessions_app.surfaces.rest.requests import PageQuery

T = TypeVar("T")


class RestView(PlainView):
    """One resource under /api."""

    def page_of(self, rows: Sequence[T], show: Callable[[T], Any]) -> Response:
        """Return the page of a whole list that the query names. show: returns the JSON object of a row."""
        page = self.query(PageQuery).wanted
        shown = rows[page.offset : page.offset + page.size]
        return ok([show(row) for row in shown], page.meta(len(rows)))


def ok(data: Any, meta: dict[str, Any] | None = None, *, status: int = 200) -> Response:
    return Response(envelope.success(data, meta), status=status)
