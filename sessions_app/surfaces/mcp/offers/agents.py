"""The agents that the caller may use."""

from typing import Any

from audit_app.kernel.database import in_db
from sessions_app.access import find_agents
from sessions_app.identity.principal import Principal
from sessions_app.surfaces.mcp.calls import Call
from sessions_app.surfaces.mcp.registry import Tool, parameters_of, tools

_MOST_LISTED = 200


async def _list_agents(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    return await in_db(_page, call.principal, arguments.get("after", ""), arguments.get("limit", _MOST_LISTED))


def _page(principal: Principal, after: str, limit: int) -> dict[str, Any]:
    rows = list(find_agents(principal.user).filter(agent_id__gt=after)[: limit + 1])
    shown = rows[:limit]
    listed = [{"agent": row.agent_id, "name": row.name, "description": row.description or ""} for row in shown]
    return {"agents": listed, **({"next": shown[-1].agent_id} if len(rows) > limit else {})}


tools.register(
    Tool(
        "list_agents",
        "List agents",
        "List the agents and what each is for, by id. If there are more, `next` is the `after` of the next page.",
        parameters_of(
            after={"type": "string", "maxLength": 120, "description": "`next` of the page before."},
            limit={"type": "integer", "minimum": 1, "maximum": _MOST_LISTED},
        ),
        True,
        _list_agents,
    )
)
