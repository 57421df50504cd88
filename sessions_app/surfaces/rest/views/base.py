"""What all plain views of this surface share: the envelope, its errors and its pages."""

from typing import Any

from rest_framework.response import Response

from sessions_app.surfaces.base.views import PlainView
from sessions_app.surfaces.rest import envelope
from sessions_app.surfaces.rest.requests import PageQuery


class KomandView(PlainView):
    """One resource of this surface."""

    def page(self) -> envelope.Page:
        return self.query(PageQuery).wanted


def ok(data: Any, meta: dict[str, Any] | None = None, *, status: int = 200) -> Response:
    return Response(envelope.success(data, meta), status=status)
