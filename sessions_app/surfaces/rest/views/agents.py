"""Agents: users read them; creating one, changing that of another user and granting it autonomy take rights."""

from functools import partial
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from rest_framework.request import Request
from rest_framework.response import Response

from agents_app import services
from agents_app.configuration.agent_access import get_sharing, may_view
from agents_app.configuration.required_rights import require_rights
from agents_app.models import Agent
from agents_app.rights import CHANGE_AGENTS, CREATE_AGENTS, DELETE_AGENTS
from audit_app.fresh_login import GRANT_AUTONOMY
from audit_app.kernel.errors import InvalidInput
from sessions_app.access import access_agent, find_agents
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.rest.objects.agents import AgentBody, AgentInFullOut, AgentOut, AgentSummaryOut
from sessions_app.surfaces.rest.operations import paged
from sessions_app.surfaces.rest.views.base import RestView, ok
from tools_app.policy import grants
from tools_app.rights import REVOKE_GRANTS


class AgentView(RestView):
    """Base of the views that change agents."""

    def require_rights(self, fields: dict[str, Any], agent: Agent | None = None) -> None:
        """Raise MissingRight or FreshLoginRequired unless the caller may set the fields. agent: None for a new one."""
        if require_rights(self.principal.user, fields, agent):
            self.principal.require_fresh_login(GRANT_AUTONOMY)


class AgentList(AgentView):
    @paged("List agents that you may use or see", (AgentOut, AgentSummaryOut))
    def get(self, request: Request) -> Response:
        user = self.principal.user
        return self.page_of(find_agents(user, or_visible=True), partial(_listed, user))

    @Operation("Create an agent", AgentInFullOut, body=AgentBody, errors=[404, 409])
    def post(self, request: Request) -> Response:
        self.require(CREATE_AGENTS)
        fields = self.body()
        self.require_rights(fields)
        return ok(in_full(services.create_agent(owner_id=self.principal.user.pk, **fields)))


class AgentDetail(AgentView):
    """One agent, with its standing grants."""

    @Operation("Read an agent", (AgentInFullOut, AgentSummaryOut))
    def get(self, request: Request, agent_id: str) -> Response:
        agent = access_agent(self.principal.user, agent_id, or_visible=True)
        is_visible = may_view(self.principal.user, agent)
        return ok(in_full(agent) if is_visible else AgentSummaryOut.of(agent))

    @Operation("Change an agent", AgentInFullOut, body=AgentBody, partial=True, errors=[409])
    def put(self, request: Request, agent_id: str) -> Response:
        agent = access_agent(self.principal.user, agent_id, needs=CHANGE_AGENTS)
        fields = self.body()
        if fields.pop("agent_id", agent_id) != agent_id:
            raise InvalidInput("The id of an agent cannot be changed. Create a new agent.", code="agent_id_fixed")
        self.require_rights(fields, agent)
        return ok(in_full(services.update_agent(agent, skills_of=self.principal.user.pk, **fields)))

    @Operation("Retire an agent", errors=[409])
    def delete(self, request: Request, agent_id: str) -> Response:
        services.retire_agent(access_agent(self.principal.user, agent_id, needs=DELETE_AGENTS))
        return ok(None)


class AgentGrant(RestView):
    """A standing grant. Once revoked, such calls need approval again."""

    @Operation("Revoke a permission")
    def delete(self, request: Request, agent_id: str, grant_id: UUID) -> Response:
        agent = access_agent(self.principal.user, agent_id, needs=REVOKE_GRANTS)
        grants.revoke_grant(grant_id, agent_id=agent.agent_id)
        return ok(None)


def _listed(user: User, agent: Agent) -> dict[str, Any]:
    shown = AgentOut if may_view(user, agent) else AgentSummaryOut
    return shown.of(agent)


def in_full(agent: Agent) -> dict[str, Any]:
    """Return an agent with its grants and its sharing, for those who see its configuration."""
    granted = grants.list_grants(agent.agent_id)
    return AgentInFullOut.of(agent, grants=granted, sharing=get_sharing(agent))
