"""Agents: everybody reads and creates; only staff and the owner change one, and only staff grant full autonomy."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from agents_app import selectors, services
from agents_app.models import Agent
from audit_app.kernel.errors import Forbidden, InvalidInput
from sessions_app.access import access_agent
from sessions_app.surfaces.rest import agent_responses
from sessions_app.surfaces.rest.requests import AgentBody
from sessions_app.surfaces.rest.views.base import KomandView, ok
from tools_app.policy import grants


class AgentList(KomandView):
    def get(self, request: Request) -> Response:
        page, rows = self.page(), selectors.list_agents()
        shown = rows[page.offset : page.offset + page.size]
        return ok([agent_responses.AgentOut.of(row) for row in shown], page.meta(len(rows)))

    def post(self, request: Request) -> Response:
        fields = self.body(AgentBody)
        _check_freedom(fields, (), is_staff=self.principal.user.is_staff)
        return ok(_whole(services.create_agent(owner_id=self.principal.user.pk, **fields)))


class AgentDetail(KomandView):
    """One agent, with what people have allowed it for ever in answer to its requests."""

    def get(self, request: Request, agent_id: str) -> Response:
        return ok(_whole(access_agent(self.principal.user, agent_id)))

    def put(self, request: Request, agent_id: str) -> Response:
        agent = access_agent(self.principal.user, agent_id, to_change=True)
        fields = self.body(AgentBody, partial=True)
        if fields.pop("agent_id", agent_id) != agent_id:
            raise InvalidInput("An agent's id cannot change. Make a new agent.", code="agent_id_fixed")
        _check_freedom(fields, agent.auto_approve, is_staff=self.principal.user.is_staff)
        return ok(_whole(services.update_agent(agent, skills_of=self.principal.user.pk, **fields)))

    def delete(self, request: Request, agent_id: str) -> Response:
        services.retire_agent(access_agent(self.principal.user, agent_id, to_change=True))
        return ok(None)


class AgentGrant(KomandView):
    """Takes a permission back: from now on such a call is asked about again."""

    def delete(self, request: Request, agent_id: str, grant_id: UUID) -> Response:
        agent = access_agent(self.principal.user, agent_id, to_change=True)
        grants.revoke_grant(grant_id, agent_id=agent.agent_id)
        return ok(None)


def _whole(agent: Agent) -> dict[str, Any]:
    return agent_responses.AgentInFullOut.of(agent, grants=grants.list_grants(agent.agent_id))


def _check_freedom(fields: dict[str, Any], approved: Sequence[str], *, is_staff: bool) -> None:
    """Whoever may not decide an agent's requests may not spare it from making them. approved: what it had before."""
    if is_staff:
        return
    if fields.get("autonomy") == "full":
        raise Forbidden("Only an operator may give an agent full autonomy.", code="autonomy_not_allowed")
    if set(fields.get("auto_approve", ())) - set(approved):
        raise Forbidden("Only an operator may approve calls in advance.", code="autonomy_not_allowed")
