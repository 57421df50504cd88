"""The caller's own credentials: stored, listed and deleted by name. No answer holds a value, nor a part of one."""

from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.surfaces.rest import responses
from sessions_app.surfaces.rest.requests import CredentialBody, NewCredentialBody
from sessions_app.surfaces.rest.views.base import KomandView, ok
from tools_app.secrets import credentials


class CredentialList(KomandView):
    def get(self, request: Request) -> Response:
        page, rows = self.page(), credentials.list_credentials(self.principal.user.pk)
        shown = rows[page.offset : page.offset + page.size]
        return ok([responses.CredentialOut.of(row) for row in shown], page.meta(len(rows)))

    def post(self, request: Request) -> Response:
        asked = self.body(NewCredentialBody)
        row, _ = credentials.store_credential(asked["name"], asked["value"], owner_id=self.principal.user.pk)
        return ok(responses.CredentialOut.of(row))


class CredentialDetail(KomandView):
    """A name is looked up among the caller's own: another's is not there, and may be stored under the same name."""

    def get(self, request: Request, name: str) -> Response:
        return ok(responses.CredentialOut.of(credentials.get_credential(name, owner_id=self.principal.user.pk)))

    def put(self, request: Request, name: str) -> Response:
        value = self.body(CredentialBody)["value"]
        row, _ = credentials.store_credential(name, value, owner_id=self.principal.user.pk)
        return ok(responses.CredentialOut.of(row))

    def delete(self, request: Request, name: str) -> Response:
        credentials.delete_credential(name, owner_id=self.principal.user.pk)
        return ok(None)
