"""Many agents at once."""

from agents_app.models import Agent
from tests.support.rest import make_agent


def make_agents(count: int, *, first: int = 0, **fields: object) -> list[Agent]:
    """Create agents `agent-0001` and so on, shared with everyone unless the fields differ."""
    provider = make_agent().provider
    given = {"provider": provider, "description": "Does things.", "is_shared_with_everyone": True, **fields}
    numbers = range(first, first + count)
    rows = [Agent(agent_id=f"agent-{number:04}", name=f"Agent {number}", **given) for number in numbers]
    return Agent.objects.bulk_create(rows)
