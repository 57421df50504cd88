"""Login with a password, refresh and logout of API clients. Sets no cookie: pages have their own login."""

from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.identity import access_tokens, login, stream_tickets
from sessions_app.surfaces.rest import responses
from sessions_app.surfaces.rest.requests import LoginBody, LogoutBody, RefreshBody
from sessions_app.surfaces.rest.views.base import KomandView, ok


class Login(KomandView):
    is_public = True

    def post(self, request: Request) -> Response:
        fields = self.body(LoginBody)
        user = login.log_in(request._request, fields["email"], fields["password"])
        login.announce(request._request, user)
        return ok(responses.LoginOut.of(access_tokens.open_login(user), user=user))


class Refresh(KomandView):
    is_public = True

    def post(self, request: Request) -> Response:
        return ok(responses.TokensOut.of(access_tokens.rotate(self.body(RefreshBody)["refresh_token"])))


class Ticket(KomandView):
    """A stand-in for the caller's credential, for one connection whose address has to carry it."""

    def post(self, request: Request) -> Response:
        return ok(
            responses.TicketOut.of(
                None, ticket=stream_tickets.issue_ticket(self.principal), expires_in_seconds=stream_tickets.SECONDS
            )
        )


class Logout(KomandView):
    """Ends the login of the refresh token in the body, else that of the JWT sent as Bearer."""

    is_public = True

    def post(self, request: Request) -> Response:
        refresh_token = self.body(LogoutBody)["refresh_token"]
        if refresh_token:
            access_tokens.close_login(refresh_token)
        else:
            access_tokens.close_login_of(request.META.get("HTTP_AUTHORIZATION", "").partition(" ")[2].strip())
        return ok(None)
