"""The versions of an agent's configuration: list, read, compare, roll back; its draft: read, change, publish, discard.

Those who see an agent's configuration read them, those who may change the agent change them.
"""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from agents_app import services
from agents_app.configuration import agent_versions
from agents_app.configuration.agent_access import may_view
from agents_app.configuration.agent_versions import DRAFT
from agents_app.models import Agent
from agents_app.rights import CHANGE_AGENTS, VIEW_AGENTS
from sessions_app.access import access_agent
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.rest.objects import agents as objects
from sessions_app.surfaces.rest.operations import paged
from sessions_app.surfaces.rest.views.agents import AgentView, in_full
from sessions_app.surfaces.rest.views.base import ok


class VersionView(AgentView):
    """Base of the views of an agent's configuration."""

    def visible(self, agent_id: str) -> Agent:
        agent = access_agent(self.principal.user, agent_id, or_visible=True)
        if not may_view(self.principal.user, agent):
            self.require(VIEW_AGENTS)
        return agent

    def changeable(self, agent_id: str) -> Agent:
        return access_agent(self.principal.user, agent_id, needs=CHANGE_AGENTS)


class VersionList(VersionView):
    @paged("List an agent's versions", objects.VersionOut, errors=[403])
    def get(self, request: Request, agent_id: str) -> Response:
        rows = agent_versions.list_versions(self.visible(agent_id))
        return self.page_of(rows, objects.VersionOut.of)


class VersionDetail(VersionView):
    @Operation("Read a version of an agent", objects.VersionInFullOut, errors=[403])
    def get(self, request: Request, agent_id: str, number: int) -> Response:
        version = agent_versions.get_version(self.visible(agent_id), number)
        return ok(objects.VersionInFullOut.of(version))


class VersionDiff(VersionView):
    @Operation("Compare two versions of an agent", [objects.FieldChangeOut], query=objects.DiffQuery, errors=[403])
    def get(self, request: Request, agent_id: str, number: int) -> Response:
        agent, to = self.visible(agent_id), self.query()["to"]
        before = agent_versions.get_version(agent, number)
        after = agent_versions.get_version(agent, agent.version if to is None else to)
        changes = agent_versions.compare(before.configuration, after.configuration)
        return ok([objects.FieldChangeOut.of(change) for change in changes])


class VersionRollback(VersionView):
    """Make a version the agent's configuration again, as a new version."""

    @Operation("Roll an agent back", objects.AgentInFullOut)
    def post(self, request: Request, agent_id: str, number: int) -> Response:
        agent = self.changeable(agent_id)
        version = agent_versions.get_version(agent, number)
        self.require_rights(version.configuration, agent)
        return ok(in_full(services.roll_back(agent, version, skills_of=self.principal.user.pk)))


class AgentDraft(VersionView):
    """The draft. PUT changes fields of it; it begins as the published configuration."""

    @Operation("Read the draft of an agent", objects.VersionInFullOut, errors=[403])
    def get(self, request: Request, agent_id: str) -> Response:
        return ok(objects.VersionInFullOut.of(agent_versions.get_version(self.visible(agent_id), DRAFT)))

    @Operation("Change the draft of an agent", objects.VersionInFullOut, body=objects.AgentBody, partial=True)
    def put(self, request: Request, agent_id: str) -> Response:
        agent = self.changeable(agent_id)
        fields: dict[str, Any] = self.body()
        self.require_rights(fields, agent)
        return ok(objects.VersionInFullOut.of(services.save_draft(agent, fields)))

    @Operation("Discard the draft of an agent")
    def delete(self, request: Request, agent_id: str) -> Response:
        agent_versions.discard_draft(self.changeable(agent_id))
        return ok(None)


class DraftPublish(VersionView):
    @Operation("Publish the draft of an agent", objects.AgentInFullOut)
    def post(self, request: Request, agent_id: str) -> Response:
        agent = self.changeable(agent_id)
        draft = agent_versions.get_version(agent, DRAFT)
        self.require_rights(draft.configuration, agent)
        return ok(in_full(services.publish_draft(agent, draft, skills_of=self.principal.user.pk)))
