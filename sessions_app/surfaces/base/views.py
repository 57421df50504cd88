"""The base class of JSON views: admission, limited request bodies, JSON answers.

Errors have the body that the surface at the path declares.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from django.conf import settings
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.views import APIView

from audit_app.kernel import context
from audit_app.rights import Right
from sessions_app.identity import rate_limits
from sessions_app.identity.principal import Principal
from sessions_app.identity.request_admission import admit, admit_anyone
from sessions_app.surfaces.base.bodies import BodyTooLarge, parse_json
from sessions_app.surfaces.base.http_errors import http_error_of
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.base.surface import surface_at

S = TypeVar("S", bound=Serializer[Any])


class JsonBody(BaseParser):
    """A JSON parser with a size limit and a nesting limit, which DRF's own does not have."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        body = stream.read(settings.KOMAND_MAX_BODY_BYTES + 1)
        if len(body) > settings.KOMAND_MAX_BODY_BYTES:
            raise BodyTooLarge
        return parse_json(body)


class OnlyJson(BaseContentNegotiation):
    """Content negotiation that ignores `Accept`: answers are always JSON."""

    def select_parser(self, request: Request, parsers: Any) -> BaseParser | None:
        media_type = (request.content_type or "").partition(";")[0].strip().lower()
        return next((parser for parser in parsers if parser.media_type == media_type), None)

    def select_renderer(self, request: Request, renderers: Any, format_suffix: Any = None) -> tuple[BaseRenderer, str]:
        return renderers[0], renderers[0].media_type


class PlainView(APIView):
    """One resource. Methods parse the request, check access, call one service and build the answer.

    is_public: no credential is needed; requests are counted by client address.
    """

    authentication_classes = ()  # `initial` admits; see there
    permission_classes = ()
    throttle_classes = ()
    parser_classes: Sequence[type[BaseParser]] = (JsonBody,)
    renderer_classes = (JSONRenderer,)
    content_negotiation_class = OnlyJson
    metadata_class = None

    is_public: ClassVar[bool] = False
    principal: Principal
    operation: Operation

    def get_exception_handler(self) -> Callable[[Exception, dict[str, Any]], Response | None]:
        return _error_response

    @staticmethod
    def admit(request: HttpRequest, limit: rate_limits.Limit) -> Principal:
        """Return the principal of the request, as `request_admission.admit`."""
        return admit(request, limit)

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        response = super().dispatch(request, *args, **kwargs)
        response.headers["Cache-Control"] = "no-store"
        return response

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Admit the request. Views and consumers share `identity.request_admission` instead of DRF's policies."""
        super().initial(request, *args, **kwargs)
        if "\0" in request.path:  # no object has such an id, and PostgreSQL rejects the query
            raise Http404
        if self.is_public:
            admit_anyone(request._request, rate_limits.api_limit())
            return
        self.principal = self.admit(request._request, rate_limits.api_limit())
        request.user = self.principal.user
        context.actor.set(self.principal.actor)  # reset by the middleware

    def require(self, right: Right) -> None:
        """Raise MissingRight, audited, unless the caller holds the right."""
        self.principal.require(right)

    def body(self) -> dict[str, Any]:
        """Return the request body, checked by the serializer that the operation declares. Raises ValidationError."""
        declared = self.operation
        fields: dict[str, Any] = self.checked(declared.body, self.request.data, partial=declared.partial).validated_data
        return fields

    def query(self) -> dict[str, Any]:
        """Return the query parameters, checked as the body. Raises ValidationError."""
        fields: dict[str, Any] = self.checked_query.validated_data
        return fields

    @cached_property
    def checked_query(self) -> Any:
        """Return the serializer that the operation declares for the query, with valid data. Raises ValidationError."""
        return self.checked(self.operation.query, self.request.query_params)

    def checked(self, serializer_class: type[S], data: Any, *, partial: bool = False) -> S:
        """Return a serializer with valid data. Raises ValidationError."""
        serializer = serializer_class(data=data, partial=partial)
        serializer.is_valid(raise_exception=True)
        return serializer


class UnknownRoute(PlainView):
    """The rest of a surface's paths: 404 for every method."""

    is_public = True

    def http_method_not_allowed(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Response:
        raise Http404


def _error_response(error: Exception, context: dict[str, Any]) -> Response:
    """DRF's exception handler: the error in the body of the surface that owns the path."""
    found = http_error_of(error)
    surface = surface_at(context["request"].path)
    if surface is None or surface.error_body is None:
        raise error
    return Response(surface.error_body(found), status=found.status, headers=dict(surface.error_headers(found)))
