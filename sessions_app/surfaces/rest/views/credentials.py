"""The caller's credentials: store, list and delete by name. No answer contains a value or a part of it."""

from typing import Any

from django.db import transaction
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.access import access_agent
from sessions_app.identity.principal import Principal
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.rest.objects.credentials import CredentialBody, CredentialOut, NewCredentialBody
from sessions_app.surfaces.rest.operations import paged
from sessions_app.surfaces.rest.views.base import RestView, ok
from tools_app.secrets import credentials


class CredentialList(RestView):
    @paged("List your credentials", CredentialOut)
    def get(self, request: Request) -> Response:
        return self.page_of(credentials.list_credentials(self.principal.user.pk), CredentialOut.of)

    @Operation("Store a credential", CredentialOut, body=NewCredentialBody, errors=[404])
    def post(self, request: Request) -> Response:
        fields = self.body()
        return ok(_stored(self.principal, fields.pop("name"), fields))


class CredentialDetail(RestView):
    """One credential. Names are per user: credentials of other users are not found and do not conflict."""

    @Operation("Read a credential without its value", CredentialOut)
    def get(self, request: Request, name: str) -> Response:
        return ok(CredentialOut.of(credentials.get_credential(name, owner_id=self.principal.user.pk)))

    @Operation("Store a credential", CredentialOut, body=CredentialBody)
    def put(self, request: Request, name: str) -> Response:
        """Store the value and the hosts, and share it with agents; each unless it is left out."""
        return ok(_stored(self.principal, name, self.body()))

    @Operation("Delete a credential")
    def delete(self, request: Request, name: str) -> Response:
        credentials.delete_credential(name, owner_id=self.principal.user.pk)
        return ok(None)


def _stored(principal: Principal, name: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Store what the fields have. Raises NotFound for an agent that the caller may not use."""
    owner_id = principal.user.pk
    agents = [access_agent(principal.user, agent_id).agent_id for agent_id in fields.get("agents", ())]
    with transaction.atomic():
        if "value" in fields:
            credentials.store_credential(name, fields["value"], owner_id=owner_id, hosts=fields.get("hosts"))
        if "agents" in fields:
            credentials.share_credential(name, agents, owner_id=owner_id)
    return CredentialOut.of(credentials.get_credential(name, owner_id=owner_id))
