"""Login with a password, refresh and logout of API clients. No cookie is set: pages have a login of their own."""

from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.identity import access_tokens, login, stream_tickets
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.rest.objects.logins import LoginBody, LoginOut, LogoutBody, RefreshBody, TicketOut, TokensOut
from sessions_app.surfaces.rest.views.base import RestView, ok


class Login(RestView):
    is_public = True

    @Operation("Log in", LoginOut, body=LoginBody, access="open", errors=[401])
    def post(self, request: Request) -> Response:
        fields = self.body()
        user = login.log_in(request._request, fields["email"], fields["password"], fields["code"])
        login.announce(request._request, user)
        return ok(LoginOut.of(access_tokens.open_login(user, request=request._request), user=user))


class Refresh(RestView):
    """The refresh token becomes invalid. Using one twice ends the login."""

    is_public = True

    @Operation("Renew a login", TokensOut, body=RefreshBody, access="open", errors=[401])
    def post(self, request: Request) -> Response:
        return ok(TokensOut.of(access_tokens.rotate(self.body()["refresh_token"])))


class Ticket(RestView):
    """A short-lived credential for one connection that has to carry it in its URL."""

    @Operation("Get a stream ticket", TicketOut)
    def post(self, request: Request) -> Response:
        return ok(
            TicketOut.of(
                None, ticket=stream_tickets.issue_ticket(self.principal), expires_in_seconds=stream_tickets.SECONDS
            )
        )


class Logout(RestView):
    """End the login of the refresh token in the body, or else of the JWT that is sent as Bearer."""

    is_public = True

    @Operation("Log out", body=LogoutBody, access="open", errors=[401])
    def post(self, request: Request) -> Response:
        refresh_token = self.body()["refresh_token"]
        if refresh_token:
            access_tokens.close_login(refresh_token)
        else:
            access_tokens.close_login_of(request.META.get("HTTP_AUTHORIZATION", "").partition(" ")[2].strip())
        return ok(None)
