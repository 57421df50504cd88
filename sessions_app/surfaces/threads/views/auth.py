"""Sign-in and sign-out with the cookie of this protocol, the current user, and the health check."""

from contextlib import suppress
from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.kernel.errors import Forbidden
from audit_app.kernel.ids import FIRST_MOMENT
from sessions_app.identity import access_tokens, login
from sessions_app.identity.principal import Unauthenticated
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.base.openapi.schemas import TEXT, record
from sessions_app.surfaces.threads import admission, responses
from sessions_app.surfaces.threads.foreign_ids import TENANT
from sessions_app.surfaces.threads.requests import SignInBody
from sessions_app.surfaces.threads.views.base import ThreadsView


class SignIn(ThreadsView):
    is_public = True

    @Operation("Sign in", responses.ThreadUserOut, body=SignInBody, access="open", errors=[401, 403])
    def post(self, request: Request) -> Response:
        fields = self.body()
        _check_tenant(fields["tenant_id"])
        identifier = fields.get("username") or fields["email"]
        user = login.log_in(request._request, identifier, fields["password"], fields["code"])
        login.announce(request._request, user)
        return _signed_in(user, request=request._request)


class SignOut(ThreadsView):
    """Ends the login of the cookie, if there is one."""

    is_public = True

    @Operation("Sign out", access="open", status=204)
    def post(self, request: Request) -> Response:
        if token := admission.token_of(request._request):
            with suppress(Unauthenticated):  # the login has ended already
                access_tokens.close_login_of(token)
        response = Response(status=204)
        admission.delete_cookie(response)
        return response


class Refresh(ThreadsView):
    """Issues a new cookie to a caller with a valid cookie or another credential that is not an API key."""

    @Operation("Renew the cookie", responses.ThreadUserOut)
    def post(self, request: Request) -> Response:
        if self.principal.kind == "api_key":
            raise Forbidden("An API key cannot get a cookie. Sign in with a password instead.")
        _check_tenant(request.query_params.get("tenant_id"))
        return _signed_in(self.principal.user, self.principal.authenticated_at or FIRST_MOMENT)


class Me(ThreadsView):
    @Operation("Read your user", responses.ThreadUserOut)
    def get(self, request: Request) -> Response:
        return Response(responses.user(self.principal.user))


class Health(ThreadsView):
    is_public = True

    @Operation("Check the health", record({"status": TEXT, "database_ts": TEXT}), access="open")
    def get(self, request: Request) -> Response:
        return Response({"status": "healthy", "database_ts": timezone.now().isoformat()})


def _signed_in(user: User, authenticated_at: datetime | None = None, *, request: HttpRequest | None = None) -> Response:
    response = Response(responses.user(user))
    tokens = access_tokens.open_login(user, authenticated_at=authenticated_at, request=request)
    admission.set_cookie(response, tokens.access)
    return response


def _check_tenant(tenant: UUID | str | None) -> None:
    if tenant and str(tenant) != str(TENANT):
        raise Forbidden(f"This installation has only the tenant {TENANT}.")
