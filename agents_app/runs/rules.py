"""What an agent's row says about its runs: how far they may go, and what their tool calls may do. Writes nothing."""

from agents_app.models import Run
from agents_app.types import Limits
from tools_app.types import AgentPolicy


def limits_of(run: Run) -> Limits:
    """The limits of one message."""
    agent = run.agent
    return Limits(
        tool_rounds=agent.max_tool_rounds,
        active_seconds=agent.max_active_seconds,
        call_seconds=agent.max_call_seconds,
        idle_seconds=agent.max_idle_seconds,
        tries=agent.max_tries,
        retry_first_seconds=agent.retry_first_seconds,
        retry_max_seconds=agent.retry_max_seconds,
        context_tokens=agent.max_context_tokens,
    )


def policy_of(run: Run) -> AgentPolicy:
    """What the tool calls of this run may do."""
    agent, enabled = run.agent, run.agent.enabled_tools
    return AgentPolicy(
        agent_id=agent.agent_id, autonomy=agent.autonomy, tools=None if enabled is None else tuple(enabled)
    )
