"""Authorization of calls: denials are recorded, and hostile names and arguments are harmless."""

import pytest

from audit_app.models import AuditEntry
from tests.support.cpu_cost import costs_less_than
from tools_app.models import ToolExecution
from tools_app.policy.rules import AgentPolicy, SessionPolicy
from tools_app.types import Effect, ExecutionStatus, Risk, TargetKind

pytestmark = [pytest.mark.usefixtures("world"), pytest.mark.one_database]
FULL = AgentPolicy("full", agent_id="default")


def test_a_denied_call_records_actor_call_and_reason(plan):
    (execution,) = plan(("echo", '{"text": "x"}'), policy=AgentPolicy("full", denied=("echo(text=x*)",)))
    assert (
        execution.error == "This call is not allowed: The call is denied by the rule echo(text=x*). Do not repeat it."
    )
    requested, failed = AuditEntry.objects.filter(session_id=execution.session_id).order_by("id")
    assert (requested.action, failed.action) == ("ToolCallRequested", "ToolExecutionFailed")
    assert (failed.actor, failed.agent_id, failed.details["tool"]) == ("user:7", "default", "echo")
    assert "echo(text=x*)" in failed.details["error"]
    assert requested.details["decision"].startswith("deny: ")
    assert requested.details["arguments"] == {"text": "x"}


@pytest.mark.parametrize(
    "name",
    [
        "\u0435cho",
        "echo\u200b",
        "ECHO",
        "echo ",
        "echo\n",
        "\uff45cho",
        "echo\0",
        "../echo",
        "echo(text=x)",
        "*",
        "mcp__",
        "__class__",
        "echo" * 100_000,
        "",
        "\ud800",
        "\U000e0065cho",
        "e\u0301cho",
        "skill__\0",
        "skill__\ud800",
        "mcp__files__\0read",
        "skill__" + "x" * 100_000,
        "skill__weather'--",
    ],
)
def test_a_name_that_only_looks_like_a_tool_is_none(plan, name):
    (execution,) = plan((name, '{"text": "x"}'), policy=FULL)
    assert execution.status is ExecutionStatus.FAILED
    assert "There is no tool" in execution.error
    assert len(execution.error) < 2000
    assert ToolExecution.objects.get().charged_at is None


@pytest.mark.parametrize(
    "arguments",
    [
        '{"text": "' + "x" * 10_000_000 + '"}',
        '{"text": ' + "[" * 1_000_000,
        '{"text": ' + "[" * 200_000 + "]" * 200_000 + "}",
        '{"text": ' + '{"a":' * 100 + "1" + "}" * 100 + "}",
        '{"text": "x", ' + ", ".join(f'"k{number}": 1' for number in range(20_000)) + "}",
        '{"text": ' + "9" * 100_000 + "}",
        '{"text": NaN}',
        '{"text": "\\ud800"}',
        "[" * 10_000_000,
    ],
    ids=["10 MB", "open", "deep", "objects", "wide", "digits", "nan", "half a pair", "10 MB deep"],
)
def test_hostile_arguments_are_refused_at_once(plan, arguments):
    with costs_less_than(1.0):
        (execution,) = plan(("echo", arguments), policy=FULL)
    assert execution.status is ExecutionStatus.FAILED
    assert len(execution.error) < 3000


def test_rules_look_at_long_arguments_quickly(plan):
    rules = tuple(f"echo(text=*needle{number}*x*y?z*)" for number in range(50))
    text = "needle and hay " * 15_000
    policy = AgentPolicy("full", denied=rules, always_ask=rules)
    with costs_less_than(3.0):
        (execution,) = plan(("echo", f'{{"text": "{text}"}}'), policy=policy)
    assert execution.status is ExecutionStatus.PENDING


def test_a_link_put_into_the_folder_does_not_lead_out_of_it(plan, make_tool, tmp_path):
    folder, outside = tmp_path / "agent", tmp_path / "outside"
    folder.mkdir(), outside.mkdir()
    (folder / "door").symlink_to(outside)
    tool = make_tool(lambda arguments, context: None)
    tool.spec.targets["path"] = TargetKind.PATH
    policy = AgentPolicy("full", workspace=str(folder))
    inside, through = plan(("act", '{"path": "notes/a"}'), ("act", '{"path": "door/a"}'), policy=policy)
    assert (inside.status, through.status) == (ExecutionStatus.PENDING, ExecutionStatus.FAILED)
    assert "is outside of the agent's folder" in through.error


def test_a_read_only_session_is_read_only_for_every_agent(plan, make_tool):
    make_tool(lambda arguments, context: None, effect=Effect.ONCE, risk=Risk.LOW)
    (execution,) = plan(("act", "{}"), policy=FULL, session_policy=SessionPolicy(is_readonly=True))
    assert "This session is read-only" in execution.error
