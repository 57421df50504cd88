"""Agents: users read and create them; only operators and the owner change one, only operators grant full autonomy."""

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
from sessions_app.surfaces.rest.views.base import RestView, ok
from tools_app.policy import grants


class AgentList(RestView):
    def get(self, request: Request) -> Response:
        return self.page_of(selectors.list_agents(), agent_responses.AgentOut.of)

    def post(self, request: Request) -> Response:
        fields = self.body(AgentBody)
        _check_autonomy(fields, (), is_staff=self.principal.user.is_staff)
        return ok(_in_full(services.create_agent(owner_id=self.principal.user.pk, **fields)))


class AgentDetail(RestView):
    """One agent, with its standing grants."""

    def get(self, request: Request, agent_id: str) -> Response:
        return ok(_in_full(access_agent(self.principal.user, agent_id)))

    def put(self, request: Request, agent_id: str) -> Response:
        agent = access_agent(self.principal.user, agent_id, to_change=True)
        fields = self.body(AgentBody, partial=True)
        if fields.pop("agent_id", agent_id) != agent_id:
            raise InvalidInput("An agent's id cannot change. Make a new agent.", code="agent_id_fixed")
        _check_autonomy(fields, agent.auto_approve, is_staff=self.principal.user.is_staff)
        return ok(_in_full(services.update_agent(agent, skills_of=self.principal.user.pk, **fields)))

    def delete(self, request: Request, agent_id: str) -> Response:
        services.retire_agent(access_agent(self.principal.user, agent_id, to_change=True))
        return ok(None)


class AgentGrant(RestView):
    """A standing grant. Once revoked, such calls need approval again."""

    def delete(self, request: Request, agent_id: str, grant_id: UUID) -> Response:
        agent = access_agent(self.principal.user, agent_id, to_change=True)
        grants.revoke_grant(grant_id, agent_id=agent.agent_id)
        return ok(None)


def _in_full(agent: Agent) -> dict[str, Any]:
    return agent_responses.AgentInFullOut.of(agent, grants=grants.list_grants(agent.agent_id))


def _check_autonomy(fields: dict[str, Any], approved: Sequence[str], *, is_staff: bool) -> None:
    """Raise Forbidden if a user who cannot approve tool calls configures an agent to skip approval.

    approved: the stored `auto_approve` of the agent.
    """
    if is_staff:
        return
    if fields.get("autonomy") == "full":
        raise Forbidden("Only an operator may give an agent full autonomy.", code="autonomy_not_allowed")
    if set(fields.get("auto_approve", ())) - set(approved):
        raise Forbidden("Only an operator may approve calls in advance.", code="autonomy_not_allowed")
