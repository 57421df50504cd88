"""The caller's API keys: list, create, revoke."""

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.fresh_login import CREATE_API_KEY
from audit_app.kernel.errors import Forbidden
from sessions_app.identity import api_keys
from sessions_app.identity.scopes import SENDERS_ANY
from sessions_app.rights import SEND_AS_ANYONE
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.rest.objects.api_keys import ApiKeyBody, ApiKeyOut, NewApiKeyOut
from sessions_app.surfaces.rest.operations import paged
from sessions_app.surfaces.rest.views.base import RestView, ok


class ApiKeyList(RestView):
    @paged("List API keys", ApiKeyOut)
    def get(self, request: Request) -> Response:
        return self.page_of(api_keys.list_api_keys(self.principal.user), ApiKeyOut.of)

    @Operation("Create an API key", NewApiKeyOut, body=ApiKeyBody)
    def post(self, request: Request) -> Response:
        """Return the key itself, only this once. A key cannot create keys, so that revoking a leaked one is enough."""
        fields = self.body()
        if self.principal.kind == "api_key":
            raise Forbidden("An API key cannot create another. Log in with a password.", code="key_makes_key")
        if SENDERS_ANY in fields["scopes"]:
            self.require(SEND_AS_ANYONE)
        self.principal.require_fresh_login(CREATE_API_KEY)
        made = api_keys.create_api_key(self.principal.user, **fields)
        return ok(NewApiKeyOut.of(made.row, key=made.key))


class ApiKeyDetail(RestView):
    @Operation("Revoke an API key")
    def delete(self, request: Request, key_id: UUID) -> Response:
        api_keys.revoke_api_key(self.principal.user, key_id)
        return ok(None)
