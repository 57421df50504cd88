"""The caller's credentials: store, list and delete by name. No answer contains a value or a part of it."""

from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.surfaces.rest import responses
from sessions_app.surfaces.rest.requests import CredentialBody, NewCredentialBody
from sessions_app.surfaces.rest.views.base import RestView, ok
from tools_app.secrets import credentials


class CredentialList(RestView):
    def get(self, request: Request) -> Response:
        return self.page_of(credentials.list_credentials(self.principal.user.pk), responses.CredentialOut.of)

    def post(self, request: Request) -> Response:
        fields = self.body(NewCredentialBody)
        row, _ = credentials.store_credential(fields["name"], fields["value"], owner_id=self.principal.user.pk)
        return ok(responses.CredentialOut.of(row))


class CredentialDetail(RestView):
    """One credential. Names are per user: credentials of other users are not found and do not conflict."""

    def get(self, request: Request, name: str) -> Response:
        return ok(responses.CredentialOut.of(credentials.get_credential(name, owner_id=self.principal.user.pk)))

    def put(self, request: Request, name: str) -> Response:
        value = self.body(CredentialBody)["value"]
        row, _ = credentials.store_credential(name, value, owner_id=self.principal.user.pk)
        return ok(responses.CredentialOut.of(row))

    def delete(self, request: Request, name: str) -> Response:
        credentials.delete_credential(name, owner_id=self.principal.user.pk)
        return ok(None)
