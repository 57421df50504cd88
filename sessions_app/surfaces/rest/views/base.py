"""The base class of the REST views: answers in the envelope, and lists in pages."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from django.db.models import QuerySet
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.response import Response

from sessions_app.surfaces.base.bodies import BodyTooLarge
from sessions_app.surfaces.base.downloads import NO_TYPE
from sessions_app.surfaces.base.views import PlainView
from sessions_app.surfaces.rest import envelope
from sessions_app.surfaces.rest.envelope import Page, PageQuery
from tools_app import conf

T = TypeVar("T")

_FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")


class RestView(PlainView):
    """One resource under /api."""

    def file_body(self) -> tuple[bytes, str]:
        """Return the raw body and its media type, empty if unknown.

        Raises BodyTooLarge if it exceeds the limit of an artifact, and UnsupportedMediaType for a form: the body is the
        file itself, not a form with it.
        """
        kind = (self.request.content_type or "").partition(";")[0].strip().lower()
        if kind in _FORMS:
            raise UnsupportedMediaType(kind)
        most, _ = conf.artifact_limits()
        body: bytes = self.request._request.read(most + 1)
        if len(body) > most:
            raise BodyTooLarge
        return body, "" if kind == NO_TYPE else kind

    def page(self) -> Page:
        """Return the page that the query names. Raises ValidationError."""
        page: Page = self.checked_query.wanted
        return page

    def page_of(self, rows: "Sequence[T] | QuerySet[Any]", show: Callable[[T], Any]) -> Response:
        """Return the page of a whole list that the query names, and of a queryset only that.

        show: returns the JSON object of a row.
        """
        page = self.checked(PageQuery, self.request.query_params).wanted
        shown = rows[page.offset : page.offset + page.size]
        return ok([show(row) for row in shown], page.meta(rows.count() if isinstance(rows, QuerySet) else len(rows)))


def ok(data: Any, meta: dict[str, Any] | None = None, *, status: int = 200) -> Response:
    return Response(envelope.success(data, meta), status=status)
