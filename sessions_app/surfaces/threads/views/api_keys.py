"""The caller's API keys. A key cannot manage keys: a leaked one could create others that outlive its revocation."""

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.fresh_login import CREATE_API_KEY
from audit_app.kernel.errors import Forbidden, NotFound
from sessions_app.identity import api_keys
from sessions_app.models import ApiKey
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.threads import responses
from sessions_app.surfaces.threads.requests import ApiKeyBody
from sessions_app.surfaces.threads.views.base import ThreadsView


class _ApiKeyView(ThreadsView):
    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        super().initial(request, *args, **kwargs)
        if self.principal.kind == "api_key":
            raise Forbidden("An API key cannot manage API keys. Sign in instead.")

    def keys(self) -> list[ApiKey]:
        return [key for key in api_keys.list_api_keys(self.principal.user) if key.revoked_at is None]

    def key(self, key_id: UUID) -> ApiKey:
        found = next((key for key in self.keys() if key.pk == key_id), None)
        if found is None:
            raise NotFound("There is no such API key.")
        return found


class ApiKeyList(_ApiKeyView):
    @Operation("List API keys", [responses.ThreadApiKeyOut], errors=[403])
    def get(self, request: Request) -> Response:
        return Response([responses.ThreadApiKeyOut.of(key) for key in self.keys()])

    @Operation("Create an API key", responses.ThreadNewApiKeyOut, status=201, body=ApiKeyBody)
    def post(self, request: Request) -> Response:
        """Create a key for this surface, as the protocol has no scopes. Only this response contains the key itself."""
        fields = self.body()
        self.principal.require_fresh_login(CREATE_API_KEY)
        created = api_keys.create_api_key(
            self.principal.user, fields["name"], scopes=[self.principal.surface], expires_at=fields["expires_at"]
        )
        return Response(responses.ThreadNewApiKeyOut.of(created.row, key=created.key), status=201)


class ApiKeyDetail(_ApiKeyView):
    @Operation("Read an API key", responses.ThreadApiKeyOut, errors=[403])
    def get(self, request: Request, key_id: UUID) -> Response:
        return Response(responses.ThreadApiKeyOut.of(self.key(key_id)))

    @Operation("Revoke an API key", status=204)
    def delete(self, request: Request, key_id: UUID) -> Response:
        api_keys.revoke_api_key(self.principal.user, self.key(key_id).pk)
        return Response(status=204)
