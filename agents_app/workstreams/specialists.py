"""The other agents that a run may launch as workstreams, and the tool that lists them."""

from typing import Any

from agents_app.configuration import agent_access
from agents_app.models import Agent, Run
from agents_app.types.child_runs import AGENTS_TOOL
from agents_app.workstreams.base import WorkstreamTool, declare, get_parent
from tools_app.parameters import parameters
from tools_app.types import Effect, ToolContext, ToolError


class AgentsList(WorkstreamTool):
    spec = declare(
        AGENTS_TOOL,
        "List the other agents that you may launch as workstreams, with what each is for.",
        parameters(),
        effect=Effect.READ,
    )

    def act(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return {"agents": [{"agent", "name", "description"}]}."""
        rows = list_specialists(get_parent(context))
        shown = [{"agent": row.agent_id, "name": row.name, "description": row.description or ""} for row in rows]
        return {"agents": shown}


def list_specialists(parent: Run) -> list[Agent]:
    """Return the agents that the parent's agent names and its person may use, with their providers, in its order."""
    named = parent.agent.workstream_agents
    if not named:
        return []
    user = agent_access.user_of(parent.conversation_id, parent.actor)
    usable = agent_access.agents_for(user).select_related("provider").filter(agent_id__in=named)
    return sorted(usable, key=lambda agent: named.index(agent.agent_id))


def get_specialist(parent: Run, agent_id: str) -> Agent:
    """Return the agent with this id that the run may launch. Raises ToolError with those that it may launch."""
    listed = list_specialists(parent)
    for agent in listed:
        if agent.agent_id == agent_id:
            return agent
    known = ", ".join(agent.agent_id for agent in listed) or "none"
    raise ToolError(f"You may not launch the agent {agent_id!r}. Agents that you may launch: {known}.")
