"""Agents: everybody reads and creates; only staff and the owner change one, and only staff grant full autonomy."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from agents_app import selectors, services
from audit_app.kernel.errors import Forbidden, InvalidInput
from sessions_app.access import access_agent
from sessions_app.surfaces.komand import shapes
from sessions_app.surfaces.komand.serializers import AgentBody
from sessions_app.surfaces.komand.views.base import KomandView, ok


class AgentList(KomandView):
    def get(self, request: Request) -> Response:
        page, rows = self.page(), selectors.list_agents()
        shown = rows[page.offset : page.offset + page.size]
        return ok([shapes.agent(row) for row in shown], page.meta(len(rows)))

    def post(self, request: Request) -> Response:
        fields = self.body(AgentBody)
        _check_autonomy(fields, is_staff=self.principal.user.is_staff)
        return ok(shapes.agent(services.create_agent(owner_id=self.principal.user.pk, **fields)))


class AgentDetail(KomandView):
    def get(self, request: Request, agent_id: str) -> Response:
        return ok(shapes.agent(access_agent(self.principal.user, agent_id)))

    def put(self, request: Request, agent_id: str) -> Response:
        agent = access_agent(self.principal.user, agent_id, to_change=True)
        fields = self.body(AgentBody, partial=True)
        if fields.pop("agent_id", agent_id) != agent_id:
            raise InvalidInput("An agent's id cannot change. Make a new agent.", code="agent_id_fixed")
        _check_autonomy(fields, is_staff=self.principal.user.is_staff)
        return ok(shapes.agent(services.update_agent(agent, **fields)))

    def delete(self, request: Request, agent_id: str) -> Response:
        services.retire_agent(access_agent(self.principal.user, agent_id, to_change=True))
        return ok(None)


def _check_autonomy(fields: dict[str, Any], *, is_staff: bool) -> None:
    if fields.get("autonomy") == "full" and not is_staff:
        raise Forbidden("Only an operator may give an agent full autonomy.", code="autonomy_not_allowed")
