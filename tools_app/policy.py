"""Decides whether a tool call may happen. Pure: plain data in, a verdict out; it reads and executes nothing."""

from dataclasses import dataclass
from typing import Any

from tools_app.types import AgentPolicy, Effect, Risk, ToolSpec


@dataclass(frozen=True)
class Allow:
    reason: str


@dataclass(frozen=True)
class Ask:
    """A person has to approve the call first."""

    reason: str


@dataclass(frozen=True)
class Deny:
    reason: str


Verdict = Allow | Ask | Deny


def decide(spec: ToolSpec, arguments: dict[str, Any], risk: Risk, agent_policy: AgentPolicy, actor: str) -> Verdict:
    """May `actor`, through an agent with this policy, make this very call? Whatever is not understood is denied.

    arguments: already valid for `spec.parameters`; risk: of this call, as the tool judged its arguments.
    The reason is one sentence that the model, the audit log and an operator can read.
    """
    refusal = refuse_tool(spec, agent_policy)
    if refusal is not None:
        return refusal
    if agent_policy.autonomy == "readonly":
        return Allow("The agent is read-only and the tool only reads.")
    if agent_policy.autonomy == "full":
        return Allow("The agent has full autonomy.")
    if risk is Risk.LOW:
        return Allow("The call is of low risk.")
    return Ask(f"The call is of {risk} risk and the agent is supervised.")


def refuse_tool(spec: ToolSpec, agent_policy: AgentPolicy) -> Deny | None:
    """The refusal that holds for every call of this tool, whatever its arguments, or None."""
    if agent_policy.tools is not None and spec.name not in agent_policy.tools:
        return Deny(f"The tool {spec.name} is not enabled for this agent.")
    if agent_policy.autonomy not in ("readonly", "supervised", "full"):
        return Deny(f"The agent's autonomy {agent_policy.autonomy!r} is not known.")
    if agent_policy.autonomy == "readonly" and spec.effect is not Effect.READ:
        return Deny(f"The agent is read-only and the tool {spec.name} may change something.")
    return None
