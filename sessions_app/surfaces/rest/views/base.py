"""What all plain views of this surface share: the envelope, its errors and its pages."""

from collections.abc import Callable
from typing import Any

from django.http import Http404, HttpRequest
from rest_framework.response import Response

from sessions_app.surfaces.base.views import PlainView
from sessions_app.surfaces.rest import envelope, errors
from sessions_app.surfaces.rest.requests import PageQuery


class KomandView(PlainView):
    """One resource of this surface."""

    def get_exception_handler(self) -> Callable[[Exception, dict[str, Any]], Response | None]:
        return errors.handle

    def page(self) -> envelope.Page:
        return self.query(PageQuery).wanted


def ok(data: Any, meta: dict[str, Any] | None = None, *, status: int = 200) -> Response:
    return Response(envelope.success(data, meta), status=status)


class UnknownRoute(KomandView):
    """Whatever else is asked for under /api: 404 in the envelope, for every method."""

    is_public = True

    def http_method_not_allowed(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Response:
        raise Http404
