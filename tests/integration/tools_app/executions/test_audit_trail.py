"""The audit log alone documents each call: arguments, verdict, decision, end and reason."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.db import transaction
from django.db.models import F

from audit_app import services as audit
from audit_app.models import AuditEntry
from tools_app import services
from tools_app.executions import runner
from tools_app.models import Approval, ToolExecution
from tools_app.policy import emergency_stop
from tools_app.policy.rules import AgentPolicy, Budgets
from tools_app.types import Effect, Risk, ToolError

pytestmark = [pytest.mark.usefixtures("world"), pytest.mark.one_database]


@dataclass(frozen=True)
class Story:
    """The history of a call. verdict: of the policy; person: decision and approver, or `system`; end: final status."""

    verdict: str
    person: tuple[str, str] | None
    end: str
    why: str


def read_from_the_log(session_id: UUID) -> Story:
    """Return the history of the session's only call."""
    entries = list(AuditEntry.objects.filter(session_id=session_id).order_by("id"))
    begun = [entry for entry in entries if entry.action == "ToolExecutionStarted"]
    asked, *between, ended = [entry for entry in entries if entry not in begun]
    assert asked.action == "ToolCallRequested"
    # A call that was denied, or ended before a process took it, has no entry of a begin; else it stands before the end.
    assert [entry.details["attempt"] for entry in begun] == list(range(1, ToolExecution.objects.get().attempts + 1))
    assert entries[-1 - len(begun) : -1] == begun
    assert all((entry.actor, entry.details["tool"]) == ("user:7", "act") for entry in begun)
    assert {entry.details["execution_id"] for entry in entries} == {str(ToolExecution.objects.get().pk)}
    assert (asked.details["tool"], asked.details["arguments"]) == ("act", {"text": "hi"})
    assert (asked.actor, asked.agent_id, asked.session_key) == ("user:7", "default", "WebChat:web:7")
    person = None
    if between:
        request, decided = between
        assert (request.action, decided.action) == ("ApprovalRequested", "ApprovalDecided")
        person = (decided.details["decision"] or decided.details["status"], decided.actor)
    assert ended.action in ("ToolExecutionCompleted", "ToolExecutionFailed")
    why = ended.details.get("error") or ended.details.get("output")
    return Story(asked.details["decision"].partition(":")[0], person, ended.details["status"], why)


def decide(decision: str) -> Callable[[UUID], None]:
    def act(execution_id: UUID) -> None:
        approval = Approval.objects.get()
        services.decide_approval(
            approval.pk, decision=decision, actor="user:1", policy=services.CurrentPolicy(AgentPolicy()), note="Not so."
        )
        if decision != "deny":
            services.execute(execution_id)

    return act


def leave(seconds_ago: int) -> Callable[[UUID], None]:
    def run_and_die(execution_id: UUID) -> None:
        runner.claim(execution_id, uuid4())
        ToolExecution.objects.update(started_at=F("started_at") - timedelta(seconds=seconds_ago))
        services.sweep(Everybody())

    return run_and_die


class Everybody:
    def dead(self, owners):
        return set(owners)


def expire(execution_id: UUID) -> None:
    Approval.objects.update(expires_at=F("created_at"))
    services.sweep(Everybody())


def end_run(execution_id: UUID) -> None:
    run_id = ToolExecution.objects.get().run_id
    with transaction.atomic():
        emergency_stop.stop(reason="Fire drill.")
        audit.emit(services.cancel_executions(run_id, reason="All agents are stopped by an operator: Fire drill."))


def nothing(execution_id: UUID) -> None:
    """Do nothing: the call has already ended."""


FULL, ASKING = AgentPolicy("full", agent_id="default"), AgentPolicy("supervised", agent_id="default")
DENYING = AgentPolicy("full", agent_id="default", denied=("act(text=h*)",))
SPENT = AgentPolicy("full", agent_id="default", budgets=Budgets(0))


@pytest.mark.parametrize(
    ("policy", "act", "story"),
    [
        pytest.param(FULL, services.execute, Story("allow", None, "Completed", '"done"'), id="allowed"),
        pytest.param(
            ASKING, decide("allow_once"), Story("ask", ("allow_once", "user:1"), "Completed", '"done"'), id="approved"
        ),
        pytest.param(ASKING, decide("deny"), Story("ask", ("deny", "user:1"), "Failed", "Not so."), id="denied"),
        pytest.param(ASKING, expire, Story("ask", ("expired", "system"), "Failed", "timeout"), id="expired"),
        pytest.param(DENYING, nothing, Story("deny", None, "Failed", "the rule act(text=h*)"), id="refused"),
        pytest.param(SPENT, nothing, Story("deny", None, "Failed", "budget allows no actions"), id="budget"),
        pytest.param(FULL, end_run, Story("allow", None, "Cancelled", "Fire drill."), id="stopped"),
        pytest.param(
            ASKING, end_run, Story("ask", ("cancelled", "system"), "Cancelled", "Fire drill."), id="stopped in asking"
        ),
        pytest.param(FULL, services.execute, Story("allow", None, "Failed", "No such page."), id="failed"),
        pytest.param(FULL, leave(60), Story("allow", None, "TimedOut", "within 10 seconds"), id="timed out"),
        pytest.param(
            FULL, services.cancel_execution, Story("allow", None, "Cancelled", "A user cancelled"), id="cancelled"
        ),
        pytest.param(FULL, leave(1), Story("allow", None, "Unknown", "outcome is unknown"), id="unknown"),
    ],
)
def test_the_log_documents_a_call(plan, make_tool, policy, act, story):
    def run(arguments, context):
        if story.end == "Failed":
            raise ToolError(story.why)
        return "done"

    make_tool(run, effect=Effect.ONCE, risk=Risk.HIGH)
    (execution,) = plan(("act", '{"text": "hi"}'), policy=policy)
    act(execution.id)
    recorded = read_from_the_log(execution.session_id)
    assert (recorded.verdict, recorded.person, recorded.end) == (story.verdict, story.person, story.end)
    assert story.why in recorded.why


def test_a_call_planned_while_all_agents_are_stopped_has_that_reason(plan, make_tool):
    make_tool(lambda arguments, context: "done")
    emergency_stop.stop(reason="Fire drill.")
    (execution,) = plan(("act", '{"text": "hi"}'), policy=FULL)
    assert read_from_the_log(execution.session_id) == Story(
        "deny", None, "Failed", f"{execution.error}"
    ) and "Fire drill." in str(execution.error)
