"""Decisions for several calls: for the rest of a run, and until revoked."""

import json
from typing import Any

import pytest

from agents_app import services as runs
from agents_app.models import Agent, Run
from agents_app.providers.kinds.scripted import Reply
from agents_app.types import RunStatus
from audit_app.kernel.errors import InvalidInput, NotFound
from audit_app.models import AuditEntry, Event
from tests.support.engine import EngineRig, until
from tools_app.models import Approval
from tools_app.policy import grants
from tools_app.types import ExecutionStatus, ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database, pytest.mark.usefixtures("launch")]


def launches(*targets: str) -> Reply:
    return Reply(
        tool_calls=tuple(ToolCall(f"c{i}", "launch", json.dumps({"target": t})) for i, t in enumerate(targets))
    )


def ask(rig: EngineRig) -> tuple[Any, Approval]:
    accepted = rig.send("launch it")
    until(lambda: Run.objects.filter(pk=accepted.run_id, waiting_on="approval", owner=None).exists())
    return accepted, Approval.objects.filter(run_id=accepted.run_id, status="pending").order_by("id")[0]


def decide(approval: Approval, decision: str) -> Any:
    return runs.decide_approval(approval.id, decision=decision, actor="user:1")


def test_for_the_run_covers_what_follows_in_it_and_no_other_run(rig: EngineRig) -> None:
    rig.agent(launches("moon"), launches("moon"), Reply(("Over.",)), launches("moon"), Reply(("Over.",)))
    accepted, approval = ask(rig)
    assert (approval.run_pattern, approval.pattern) == ("launch", "launch(target=moon)")
    assert decide(approval, "allow_run").decision == "allow_run"
    transcript = rig.wait(accepted.run_id)
    assert [execution.status for execution in transcript.executions] == [ExecutionStatus.COMPLETED] * 2
    assert grants.list_grants("default") == ()
    ask(rig)


def test_for_ever_covers_later_runs_of_the_agent_until_it_is_revoked(rig: EngineRig) -> None:
    rig.agent(launches("moon"), Reply(("Over.",)), launches("moon"), Reply(("Over.",)), launches("moon"))
    accepted, approval = ask(rig)
    decide(approval, "allow_always")
    rig.wait(accepted.run_id)
    second = rig.wait(rig.send("again").run_id)
    assert second.run.status is RunStatus.COMPLETED
    assert Approval.objects.count() == 1
    (grant,) = grants.list_grants("default")
    assert (grant.pattern, grant.granted_by) == ("launch(target=moon)", "user:1")
    grants.revoke_grant(grant.id)
    with pytest.raises(NotFound):
        grants.revoke_grant(grant.id)
    ask(rig)
    actions = AuditEntry.objects.filter(action__startswith="Grant").order_by("id")
    assert [(entry.action, entry.details["pattern"]) for entry in actions] == [
        ("GrantMade", "launch(target=moon)"),
        ("GrantRevoked", "launch(target=moon)"),
    ]


def test_other_arguments_need_approval_again(rig: EngineRig) -> None:
    rig.agent(launches("moon"), launches("sun"), Reply(("Over.",)))
    accepted, approval = ask(rig)
    decide(approval, "allow_always")
    until(lambda: Approval.objects.filter(run_id=accepted.run_id, status="pending").exists())


def test_calls_that_wait_beside_it_are_settled_too(rig: EngineRig) -> None:
    rig.agent(launches("moon", "mars", "moon"), Reply(("Over.",)))
    accepted, approval = ask(rig)
    decide(approval, "allow_always")
    assert list(Approval.objects.order_by("id").values_list("status", flat=True)) == ["approved", "pending", "approved"]
    decide(Approval.objects.get(status="pending"), "deny")
    statuses = [execution.status for execution in rig.wait(accepted.run_id).executions]
    assert statuses == [ExecutionStatus.COMPLETED, ExecutionStatus.FAILED, ExecutionStatus.COMPLETED]


def test_a_call_that_always_needs_approval_can_be_allowed_for_a_run_only(rig: EngineRig) -> None:
    rig.agent(launches("moon"), launches("moon"), Reply(("Over.",)), always_ask=["launch"], autonomy="full")
    accepted, approval = ask(rig)
    assert approval.choices == ("allow_once", "allow_run", "deny")
    with pytest.raises(InvalidInput) as refused:
        decide(approval, "allow_always")
    assert refused.value.code == "choice_not_offered"
    with pytest.raises(InvalidInput):
        decide(approval, "perhaps")
    decide(approval, "allow_run")
    assert rig.wait(accepted.run_id).run.status is RunStatus.COMPLETED
    assert Event.objects.get(type="approval.requested").payload["choices"] == ["allow_once", "allow_run", "deny"]


def test_a_rule_made_after_the_question_counts(rig: EngineRig) -> None:
    rig.agent(launches("moon"), Reply(("Over.",)))
    accepted, approval = ask(rig)
    Agent.objects.update(denied_tools=["launch(target=m*)"])
    decide(approval, "allow_once")
    (execution,) = rig.wait(accepted.run_id).executions
    assert execution.status is ExecutionStatus.FAILED
    assert "denied by the rule launch(target=m*)" in (execution.error or "")
