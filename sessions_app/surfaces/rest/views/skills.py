"""Skills: users read the registry; holders of the right publish; users who may change an agent install them for it."""

from rest_framework.request import Request
from rest_framework.response import Response

from agents_app.configuration import agent_skills
from agents_app.configuration.agent_access import may_view
from agents_app.models import Agent
from agents_app.rights import CHANGE_AGENTS, VIEW_AGENTS
from audit_app.kernel.errors import InvalidInput
from sessions_app.access import access_agent
from sessions_app.identity.principal import Principal
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.rest.objects import skills as objects
from sessions_app.surfaces.rest.operations import paged
from sessions_app.surfaces.rest.views.base import RestView, ok
from tools_app.rights import PUBLISH_SKILLS
from tools_app.skills import registry
from tools_app.skills.manifest_schema import MANIFEST


class SkillList(RestView):
    """The newest version of each skill. POST publishes a manifest."""

    @paged("List skills", objects.SkillOut, objects.SkillQuery)
    def get(self, request: Request) -> Response:
        page, fields = self.page(), self.query()
        wanted = {name: fields[name] for name in ("publisher_id", "category", "verified_only")}
        rows, total = registry.list_skills(**wanted, limit=page.size, offset=page.offset)
        return ok([objects.SkillOut.of(row) for row in rows], page.meta(total))

    @Operation("Publish a skill", objects.SkillOut, body=MANIFEST, errors=[409])
    def post(self, request: Request) -> Response:
        return _publish(self, request)


class SkillDetail(RestView):
    @Operation("Read a skill", objects.SkillOut, query=objects.VersionQuery)
    def get(self, request: Request, skill_id: str) -> Response:
        version = self.query()["version"]
        return ok(objects.SkillOut.of(registry.get_skill(skill_id, version)))

    @Operation("Publish a version", objects.SkillOut, body=MANIFEST, errors=[409])
    def put(self, request: Request, skill_id: str) -> Response:
        """Publish a version. Published versions never change (409)."""
        return _publish(self, request, skill_id)

    @Operation("Remove a skill", errors=[409])
    def delete(self, request: Request, skill_id: str) -> Response:
        self.require(PUBLISH_SKILLS)
        registry.delete_skill(skill_id)
        return ok(None)


class AgentSkillList(RestView):
    @Operation("List an agent's skills", [objects.SkillInstallOut])
    def get(self, request: Request, agent_id: str) -> Response:
        agent = _visible_agent(self.principal, agent_id)
        return ok([objects.SkillInstallOut.of(row) for row in registry.list_installs(agent.agent_id)])


class AgentSkill(RestView):
    """A skill of an agent. It uses the credentials of the user who installed it."""

    @Operation("Read an agent's skill", objects.SkillInstallOut)
    def get(self, request: Request, agent_id: str, skill_id: str) -> Response:
        agent = _visible_agent(self.principal, agent_id)
        return ok(objects.SkillInstallOut.of(registry.get_install(agent.agent_id, skill_id)))

    @Operation("Install a skill for an agent", objects.SkillInstallOut, body=objects.InstallBody, errors=[409])
    def post(self, request: Request, agent_id: str, skill_id: str) -> Response:
        """Install the skill. 403 `permission_missing` if the granted permissions do not cover the required ones."""
        agent = access_agent(self.principal.user, agent_id, needs=CHANGE_AGENTS)
        installed = agent_skills.install_skill(agent, skill_id, owner_id=self.principal.user.pk, **self.body())
        return ok(objects.SkillInstallOut.of(installed))

    @Operation("Change the permissions of a skill", objects.SkillInstallOut, body=objects.GrantBody)
    def put(self, request: Request, agent_id: str, skill_id: str) -> Response:
        """Change the granted permissions. Without the required ones, calls of the skill are refused."""
        agent = access_agent(self.principal.user, agent_id, needs=CHANGE_AGENTS)
        granted = self.body()["granted"]
        return ok(objects.SkillInstallOut.of(registry.change_grants(agent.agent_id, skill_id, granted)))

    @Operation("Uninstall a skill")
    def delete(self, request: Request, agent_id: str, skill_id: str) -> Response:
        agent_skills.uninstall_skill(access_agent(self.principal.user, agent_id, needs=CHANGE_AGENTS), skill_id)
        return ok(None)


def _visible_agent(principal: Principal, agent_id: str) -> Agent:
    """Return an agent whose configuration the caller may see. Raises NotFound, MissingRight."""
    agent = access_agent(principal.user, agent_id, or_visible=True)
    if not may_view(principal.user, agent):
        principal.require(VIEW_AGENTS)
    return agent


def _publish(view: RestView, request: Request, skill_id: str = "") -> Response:
    view.require(PUBLISH_SKILLS)
    if not isinstance(request.data, dict):
        raise InvalidInput("A manifest must be a JSON object.", code="bad_manifest")
    if skill_id and request.data.get("skillId", skill_id) != skill_id:
        raise InvalidInput("`skillId` of the manifest is not the skill of the URL.", code="bad_manifest")
    published, _ = registry.register({**request.data, "skillId": skill_id} if skill_id else request.data)
    return ok(objects.SkillOut.of(published))
