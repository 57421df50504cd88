"""Settings of an agent run that its caller may choose: the model and the mode of approvals."""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User

from agents_app.configuration.agent_access import may_change
from agents_app.models import Agent
from audit_app.kernel.errors import Forbidden, InvalidInput

_AUTONOMY = {"ask": "supervised", "full_control": "full"}


def check(user: User, agent: Agent, request: Mapping[str, Any]) -> None:
    """Check the settings of a start request, or of one that a signal has changed.

    Raises Forbidden (model_not_allowed) for another model than the agent's from a user who may not change the agent,
    and InvalidInput (unsupported_option) for another mode of approvals than the agent's autonomy.
    """
    model = (request.get("config") or {}).get("model")
    if model and model != (agent.model_id or agent.provider.default_model) and not may_change(user, agent):
        message = "Only its owner, or a user who may change agents, may give this agent another model."
        raise Forbidden(message, code="model_not_allowed")
    mode = request.get("tool_approval_mode")
    if mode and _AUTONOMY.get(mode) != agent.autonomy:
        raise InvalidInput(
            f"`tool_approval_mode` {mode!r} is not supported here: this agent's autonomy is {agent.autonomy}. "
            "A user who may change the agent can change that.",
            code="unsupported_option",
            param="tool_approval_mode",
        )
