"""Settings of an agent run that its caller may choose: the model and the mode of approvals."""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User

from agents_app.configuration.agent_access import may_change
from agents_app.models import Agent
from audit_app.kernel.errors import Forbidden, InvalidInput
from sessions_app import services
from sessions_app.models import Session
from sessions_app.surfaces.agent_messages.requests import MODES


def check(user: User, agent: Agent, request: Mapping[str, Any]) -> None:
    """Check the settings of a start request, or of one that a signal has changed.

    Raises Forbidden (model_not_allowed) for another model than the agent's from a user who may not change the agent,
    and InvalidInput (invalid_value) for an unknown mode of approvals.
    """
    model = (request.get("config") or {}).get("model")
    if model and model != (agent.model_id or agent.provider.default_model) and not may_change(user, agent):
        message = "Only its owner, or a user who may change agents, may give this agent another model."
        raise Forbidden(message, code="model_not_allowed")
    mode = request.get("tool_approval_mode")
    if mode and mode not in MODES:
        message = f"The mode of approvals must be one of: {', '.join(MODES)}."
        raise InvalidInput(message, code="invalid_value", param="tool_approval_mode")


def mode_in_force(agent: Agent, mode: str) -> str:
    """Return the mode of approvals that a wanted one has with this agent: never wider than its autonomy.

    There is no automatic reviewer: `auto_review` asks, by the agent's own rules.
    """
    return "full_control" if mode == "full_control" and agent.autonomy == "full" else "ask"


def apply_mode(session: Session, mode: str) -> None:
    """Store, and audit, what a mode in force restricts in the session's later runs."""
    services.supervise_session(session, is_supervised=mode == "ask")
