"""Who may call what: a table of the policy's verdicts."""

import pytest

from tools_app.policy import Allow, Ask, Deny, decide, refuse_tool
from tools_app.types import AgentPolicy, Effect, Risk, ToolSpec


def spec(effect):
    return ToolSpec("mail", "Sends it.", {"type": "object"}, effect=effect)


@pytest.mark.parametrize(
    ("autonomy", "effect", "risk", "verdict"),
    [
        ("readonly", Effect.READ, Risk.LOW, Allow),
        ("readonly", Effect.READ, Risk.HIGH, Allow),
        ("readonly", Effect.KEYED, Risk.LOW, Deny),
        ("readonly", Effect.ONCE, Risk.LOW, Deny),
        ("supervised", Effect.READ, Risk.LOW, Allow),
        ("supervised", Effect.ONCE, Risk.LOW, Allow),
        ("supervised", Effect.READ, Risk.MEDIUM, Ask),
        ("supervised", Effect.ONCE, Risk.HIGH, Ask),
        ("full", Effect.ONCE, Risk.HIGH, Allow),
        ("full", Effect.READ, Risk.LOW, Allow),
        ("godlike", Effect.READ, Risk.LOW, Deny),
        ("", Effect.READ, Risk.LOW, Deny),
    ],
)
def test_autonomy_effect_and_risk_decide(autonomy, effect, risk, verdict):
    assert type(decide(spec(effect), {}, risk, AgentPolicy(autonomy), "user:1")) is verdict


@pytest.mark.parametrize(("tools", "verdict"), [(None, Allow), (("mail",), Allow), (("echo",), Deny), ((), Deny)])
def test_a_tool_must_be_on_the_agents_list_if_there_is_one(tools, verdict):
    assert type(decide(spec(Effect.READ), {}, Risk.LOW, AgentPolicy("full", tools), "user:1")) is verdict


def test_a_tool_that_a_person_might_approve_is_not_refused_outright():
    assert refuse_tool(spec(Effect.ONCE), AgentPolicy("supervised")) is None
    assert refuse_tool(spec(Effect.ONCE), AgentPolicy("readonly")) == Deny(
        "The agent is read-only and the tool mail may change something."
    )
