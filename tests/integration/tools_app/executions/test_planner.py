"""Planning: rows, events and nudges; calls that cannot be run are stored as Failed with a useful error."""

import pytest
from django.db import IntegrityError

from audit_app.kernel import context
from audit_app.models import AuditEntry, Event
from tools_app import conf, services
from tools_app.models import Approval, ToolExecution
from tools_app.policy.rules import AgentPolicy
from tools_app.types import Effect, ExecutionStatus, Risk

pytestmark = pytest.mark.usefixtures("world")


def test_a_good_call_is_pending_and_a_worker_is_nudged_under_its_limits(plan, nudges):
    (execution,) = plan(("echo", '{"text": "hi", "timeout_seconds": 7}'))
    assert execution.status is ExecutionStatus.PENDING
    assert execution.arguments == {"text": "hi"}
    ((task, argument, options),) = nudges
    assert (task, argument) == ("tools.execute", str(execution.id))
    assert options["queue"] == "tools"
    assert options["task_id"] == str(execution.id)
    assert (options["soft_time_limit"], options["time_limit"]) == (7, 7 + conf.GRACE_SECONDS)


def test_a_call_is_recorded_in_the_timeline_and_the_audit_log(plan):
    with context.bind(request_id="req-1"):
        (execution,) = plan(("echo", '{"text": "my key is sk-aaaaaaaaaaaaaaaaaaaaaaaa"}'))
    (event,) = Event.objects.filter(run_id=execution.run_id)
    assert event.type == "tool.requested"
    assert event.payload["execution_id"] == str(execution.id)
    assert (event.payload["call_id"], event.payload["tool"], event.payload["text_length"]) == ("call_0", "echo", 12)
    assert "sk-" not in str(event.payload)
    (entry,) = AuditEntry.objects.filter(session_id=execution.session_id)
    assert (entry.action, entry.actor, entry.session_key) == ("ToolCallRequested", "user:7", "WebChat:web:7")
    assert ToolExecution.objects.get().request_id == entry.request_id == "req-1"


def test_several_calls_keep_their_order(plan, nudges):
    executions = plan(("echo", '{"text": "a"}'), ("nope", "{}"), ("echo", '{"text": "b"}'))
    assert [execution.call_index for execution in executions] == [0, 1, 2]
    assert nudges.of("tools.execute") == [str(executions[0].id), str(executions[2].id)]
    types = list(Event.objects.order_by("seq").values_list("type", "payload__call_id"))
    assert types == [
        ("tool.requested", "call_0"),
        ("tool.requested", "call_1"),
        ("tool.failed", "call_1"),
        ("tool.requested", "call_2"),
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("no_such_tool", "{}", "no tool 'no_such_tool'.*calculator, .*date_time, .*echo, .*web_fetch"),
        ("", "{}", "no tool ''"),
        ("no\0such" + "x" * 500, "{}", "no tool 'nosuchx"),
        ("\ud800", "{}", "no tool"),
        ("echo", '{"text": ', "not valid JSON"),
        ("echo", "", "text is missing"),
        ("echo", '{"text": 5}', "text: must be string, not integer"),
        ("echo", '{"text": "\\u0000"}', "NUL"),
        ("echo", '{"text": "a", "timeout_seconds": "soon"}', "timeout_seconds"),
        ("echo", '{"text": "' + "x" * 300_000 + '"}', "longer than"),
    ],
)
def test_a_call_that_cannot_be_run_is_born_failed(plan, nudges, name, arguments, error):
    (execution,) = plan((name, arguments))
    assert execution.status is ExecutionStatus.FAILED
    assert execution.text_for_model.startswith("[Failed]")
    assert execution.completed_at is not None
    assert execution.duration_seconds is None
    assert not nudges
    row = ToolExecution.objects.get()
    assert (row.renudge_at, row.owner) == (None, None)
    with pytest.raises(AssertionError, match=error):
        raise AssertionError(execution.error)
    failed = Event.objects.get(type="tool.failed")
    assert (failed.payload["status"], failed.payload["duration_ms"]) == ("Failed", None)
    assert AuditEntry.objects.filter(action="ToolExecutionFailed").count() == 1


@pytest.mark.parametrize(
    ("policy", "effect", "risk", "error"),
    [
        (AgentPolicy("readonly"), Effect.ONCE, Risk.LOW, "not allowed"),
        (AgentPolicy("full", tools=("echo",)), Effect.READ, Risk.LOW, "not enabled for this agent"),
    ],
)
def test_a_call_that_the_policy_does_not_allow_is_never_run(plan, nudges, make_tool, policy, effect, risk, error):
    make_tool(lambda arguments, context: pytest.fail("it was run"), effect=effect, risk=risk)
    (execution,) = plan(("act", "{}"), policy=policy)
    assert execution.status is ExecutionStatus.FAILED
    assert error in execution.error
    assert not nudges


def test_a_call_that_needs_approval_waits_without_a_nudge(plan, nudges, make_tool):
    make_tool(lambda arguments, context: pytest.fail("it was run"), effect=Effect.READ, risk=Risk.HIGH)
    (execution,) = plan(("act", "{}"), policy=AgentPolicy("supervised"))
    assert execution.status is ExecutionStatus.PENDING
    approval = Approval.objects.get(execution_id=execution.id)
    assert (approval.status, "High-risk" in approval.reason) == ("pending", True)
    assert not nudges


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("write_artifact", '{"path": "report.md", "content": "a"}', "must begin with out/ or files/"),
        ("write_artifact", '{"path": "files/a", "content": "!", "encoding": "base64"}', "not valid base64"),
        ("web_fetch", '{"url": "ftp://example.org/"}', "Only http and https"),
    ],
)
def test_nobody_is_asked_to_approve_a_call_whose_arguments_cannot_work(plan, nudges, name, arguments, error):
    (execution,) = plan((name, arguments), policy=AgentPolicy("supervised", always_ask=(name,)))
    assert execution.status is ExecutionStatus.FAILED
    assert error in execution.error
    assert not Approval.objects.exists() and not nudges


def test_the_policy_judges_the_risk_of_the_very_call(plan, make_tool):
    tool = make_tool(lambda arguments, context: None, risk=Risk.HIGH)
    tool.risk_of = lambda arguments: Risk.LOW if arguments.get("dry") else Risk.HIGH
    plan(("act", '{"dry": true}'), ("act", "{}"))
    assert [approval.execution.arguments for approval in Approval.objects.all()] == [{}]


def test_a_step_is_planned_once(plan):
    (execution,) = plan(("echo", '{"text": "a"}'))
    with pytest.raises(IntegrityError):
        plan(("echo", '{"text": "a"}'), run_id=execution.run_id)


def test_a_long_call_id_of_a_model_fits_its_column(plan, monkeypatch):
    (execution,) = plan(("echo" * 100, "{}"))
    assert len(ToolExecution.objects.get(id=execution.id).tool) == 120


def test_a_model_is_offered_what_its_agent_may_use(make_tool):
    make_tool(lambda arguments, context: None, effect=Effect.ONCE, name="mail")
    names = lambda policy: [spec.name for spec in services.specs_for(policy)]  # noqa: E731
    assert {"calculator", "echo", "mail", "memory_store", "web_fetch"} <= set(names(AgentPolicy()))
    readonly = set(names(AgentPolicy("readonly")))
    assert {"ask_user", "calculator", "echo", "web_fetch"} <= readonly
    assert not {"mail", "memory_store", "write_artifact"} & readonly
    assert names(AgentPolicy("full", tools=("mail", "gone"))) == ["mail"]
    assert names(AgentPolicy(tools=())) == []
    fields = {spec.name: set(spec.parameters.get("properties", {})) for spec in services.specs_for(AgentPolicy())}
    assert "timeout_seconds" not in fields["web_fetch"]  # takes little time
    assert "timeout_seconds" not in fields["ask_user"]  # a person takes the time they take
