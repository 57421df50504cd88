"""The tools of an agent's installed skills, `skill__<id>`, read by one small query each time."""

import logging
from collections.abc import Iterable
from functools import lru_cache
from uuid import UUID

from audit_app.kernel.errors import InvalidInput
from tools_app import catalogue, hot_queries
from tools_app.catalogue import ToolSource
from tools_app.mcp_client.listed_tool import public_names
from tools_app.models import McpTool, SkillInstall
from tools_app.skills import registry
from tools_app.skills.http_skill import HttpSkill
from tools_app.skills.installed import PREFIX, Installed
from tools_app.skills.instruction_skill import InstructionSkill
from tools_app.skills.manifest import Kind
from tools_app.skills.mcp_skill import McpSkill
from tools_app.types import AnyTool, AsyncTool

logger = logging.getLogger(__name__)


class SkillSource(ToolSource):
    """The tools of an agent's installed skills. A skill that is only declared has no tool."""

    prefix, flag = PREFIX, "has_skills"

    def list_tools(self, agent_id: str) -> Iterable[AnyTool]:
        if not hot_queries.FIND_ANY_SKILL.rows(agent_id=agent_id):
            return []
        rows = SkillInstall.objects.select_related("version").filter(agent_id=agent_id).order_by("skill__skill_id")
        return [tool for row in rows if (tool := _tool(row))]

    def find_tool(self, name: str, agent_id: str) -> AnyTool | None:
        wanted = SkillInstall.objects.select_related("version").filter(
            agent_id=agent_id, skill__skill_id=name.removeprefix(PREFIX)
        )
        row = wanted.first()
        return _tool(row) if row else None


def _tool(row: SkillInstall) -> AnyTool | None:
    try:
        installed = _installed(row.version_id, tuple(row.granted), row.owner_id, registry.is_verified(row.version))
    except InvalidInput as error:  # an older release accepted it; the agent's other tools must stay available
        logger.warning("version %s of a skill cannot be used: %s", row.version_id, error.message)
        return None
    manifest = installed.manifest
    match manifest.kind:
        case Kind.HTTP if manifest.http:
            return HttpSkill(installed, manifest.http)
        case Kind.MCP if manifest.mcp:
            tool = catalogue.find_tool(_public_name(*manifest.mcp), row.agent_id)
            return McpSkill(installed, tool) if isinstance(tool, AsyncTool) else None
        case Kind.INSTRUCTION:
            return InstructionSkill(installed)
    return None


def _public_name(server: str, name: str) -> str:
    """Return the name of a server's tool for agents, which depends on the server's other tools."""
    names = McpTool.objects.filter(server__name=server).values_list("name", flat=True)
    return public_names(server, {*names, name})[name]


@lru_cache(maxsize=1024)
def _installed(version_id: UUID, granted: tuple[str, ...], owner_id: int | None, is_verified: bool) -> Installed:
    """Return the installed skill. Cached by all its inputs: a version never changes."""
    return Installed(registry.load_manifest(version_id), registry.read_permissions(granted), owner_id, is_verified)
