"""Dry run of a call: the checks and rules of a real one. Stores and runs nothing."""

from dataclasses import dataclass
from typing import Any

from django.db import transaction

from tools_app import catalogue, conf, schema
from tools_app.executions.planner import waiver_of
from tools_app.policy.authorization import Gate
from tools_app.policy.decide import OPEN_SESSION, Ask, Deny
from tools_app.policy.rules import AgentPolicy
from tools_app.types import AnyTool


@dataclass(frozen=True)
class DryRun:
    """Result of a dry run.

    verdict: allow | ask | deny, or `unfit` for a call that fails before the rules are applied.
    rule: the rule that decided.
    risk, effect: of this call.
    run_pattern, pattern: what an approver could allow.
    """

    verdict: str
    reason: str
    rule: str = ""
    risk: str = ""
    effect: str = ""
    run_pattern: str = ""
    pattern: str = ""


def dry_run(tool_name: str, arguments_text: str, *, policy: AgentPolicy, actor: str) -> DryRun:
    """Return the verdict on this call as of now. arguments_text: JSON, as a model would send it."""
    tool = catalogue.find_tool(tool_name, policy.agent_id)
    try:
        arguments = schema.read_arguments(arguments_text, max_characters=conf.MAX_ARGUMENTS_CHARACTERS)
        if tool is None:
            return DryRun("unfit", f"There is no tool {tool_name[:120]!r}.")
        limit = conf.max_timeout_seconds()
        arguments, _ = schema.take_timeout(arguments, default_seconds=limit, max_seconds=limit)
        schema.check_call(tool, arguments)
    except schema.ArgumentsError as problem:
        return DryRun("unfit", str(problem))
    return _decide(tool, arguments, policy, actor)


def _decide(tool: AnyTool, arguments: dict[str, Any], policy: AgentPolicy, actor: str) -> DryRun:
    with transaction.atomic():
        gate = Gate(policy, OPEN_SESSION, actor=actor)
        verdict = gate.decide(tool, arguments, waiver=waiver_of(tool))
    proposal = gate.propose(tool, arguments) if isinstance(verdict, Ask) else None
    return DryRun(
        verdict="ask" if isinstance(verdict, Ask) else "deny" if isinstance(verdict, Deny) else "allow",
        reason=verdict.reason,
        rule=verdict.rule,
        risk=tool.risk_of(arguments).value,
        effect=tool.effect_of(arguments).value,
        run_pattern=proposal.run if proposal else "",
        pattern=proposal.always if proposal and isinstance(verdict, Ask) and verdict.is_standing else "",
    )
