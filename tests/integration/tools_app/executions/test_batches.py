"""Batches: one tool over a list, each call with an execution, a decision and a receipt of its own."""

import json
import threading
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from agents_app.runs import run_policy
from agents_app.types import RunStatus
from audit_app.models import AuditEntry, Event
from sessions_app.integrity_checks import find_violations
from sessions_app.models import Session
from sessions_app.surfaces.chat import queries
from tests.support.engine import EngineRig, until
from tests.support.rest import RestCaller
from tools_app import services as tools
from tools_app.models import Approval, ToolExecution
from tools_app.receipts import receipts
from tools_app.registry import tools as registry
from tools_app.types import Effect, ExecutionStatus, Reads, Risk, Tool, ToolCall, ToolContext, ToolError, ToolSpec

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


class Work(Tool):
    """A tool that fails for 0, and waits until it may go on if the test holds it. Counts the concurrent calls."""

    spec = ToolSpec(
        name="work",
        description="Works on a number.",
        parameters={"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
        effect=Effect.READ,
        risk=Risk.LOW,
        reads=Reads.NOTHING,
        sends=(),
    )

    def __init__(self, risk: Risk = Risk.LOW) -> None:
        self.risk = risk
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.running = self.most_running = 0
        self._lock = threading.Lock()

    def risk_of(self, arguments: dict[str, Any]) -> Risk:
        return self.risk if arguments["number"] > 10 else Risk.LOW

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        with self._lock:
            self.running += 1
            self.most_running = max(self.most_running, self.running)
        self.may_go_on.wait(60)
        with self._lock:
            self.running -= 1
        if arguments["number"] == 0:
            raise ToolError("Zero cannot be worked on.")
        return {"square": arguments["number"] ** 2}


@pytest.fixture
def work() -> Iterator[Work]:
    tool = Work(Risk.HIGH)
    with registry.override(tool):
        yield tool
        tool.may_go_on.set()


def batch(*numbers: Any, tool: str = "work") -> ToolCall:
    return ToolCall("c1", "batch", json.dumps({"tool": tool, "items": [{"number": number} for number in numbers]}))


def start(rig: EngineRig, *calls: ToolCall, **agent: Any) -> UUID:
    rig.agent(Reply(tool_calls=calls), Reply(("Done.",)), **agent)
    return rig.send("work").run_id


def last_progress() -> dict[str, Any]:
    return Event.objects.filter(type="batch.progress").order_by("seq").last().payload  # type: ignore[union-attr]


def test_each_item_is_a_call_and_a_failure_stops_no_other(rig: EngineRig, work: Work) -> None:
    run_id = start(rig, batch(3, 0, "x", 5))
    transcript = rig.wait(run_id)
    assert transcript.run.status is RunStatus.COMPLETED
    (execution,) = transcript.executions
    result = json.loads(execution.output or "")
    assert (result["total"], result["succeeded"], result["failed"]) == (4, 2, 2)
    assert [item.get("result") for item in result["items"]] == [{"square": 9}, None, None, {"square": 25}]
    assert "Zero cannot" in result["items"][1]["error"] and "number" in result["items"][2]["error"]
    items = ToolExecution.objects.filter(batch_id=execution.id).order_by("call_index")
    assert [item.status for item in items] == ["Completed", "Failed", "Failed", "Completed"]
    assert all(receipts.verify_receipt(item.receipt).is_valid for item in items)
    assert AuditEntry.objects.filter(action="ToolCallRequested").count() == 5
    done = AuditEntry.objects.filter(action__in=("ToolExecutionCompleted", "ToolExecutionFailed"))
    assert done.count() == 5 and all(entry.details["receipt"] for entry in done)


def test_the_timeline_has_the_progress_and_not_each_item(rig: EngineRig, work: Work) -> None:
    rig.wait(start(rig, batch(1, 0)))
    types = list(Event.objects.filter(type__startswith="tool.").order_by("seq").values_list("type", flat=True))
    assert types == ["tool.requested", "tool.completed"]
    events = [event.payload for event in Event.objects.filter(type="batch.progress").order_by("seq")]
    assert [(event["done"], event["failed"]) for event in (events[0], events[-1])] == [(0, 0), (2, 1)]
    assert [item["status"] for item in events[-1]["items"]] == ["success", "error"]
    assert events[-1]["completed_at"] >= events[-1]["started_at"] and events[0]["completed_at"] is None


@pytest.mark.whole
def test_long_batches_have_few_events(rig: EngineRig, work: Work) -> None:
    rig.wait(start(rig, batch(*[2] * 60)), seconds=60)
    assert Event.objects.filter(type="batch.progress").count() <= 22
    assert (last_progress()["done"], last_progress()["total"]) == (60, 60)


def test_no_more_items_run_together_than_the_setting_says(
    rig: EngineRig, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "KOMAND_BATCH_PARALLEL", 2)
    work.may_go_on.clear()
    run_id = start(rig, batch(*range(1, 7)))
    until(lambda: work.running == 2)
    assert ToolExecution.objects.filter(batch_id__isnull=False, renudge_at=None, status="Pending").count() == 4
    assert [found.text for found in find_violations() if "is stuck" in found.text] == []
    work.may_go_on.set()
    rig.wait(run_id)
    assert work.most_running == 2 and find_violations() == []


def test_more_items_than_the_setting_are_refused(rig: EngineRig, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "KOMAND_BATCH_ITEMS", 2)
    (execution,) = rig.wait(start(rig, batch(1, 2, 3))).executions
    assert execution.status is ExecutionStatus.FAILED and "at most 2 items" in (execution.error or "")
    assert not ToolExecution.objects.filter(batch_id__isnull=False).exists()


@pytest.mark.parametrize("name", ["ask_user", "ask_form", "batch", "no_such_tool"])
def test_what_cannot_be_an_item_fails(rig: EngineRig, name: str) -> None:
    (execution,) = rig.wait(start(rig, batch(1, tool=name))).executions
    result = json.loads(execution.output or "")
    assert (result["failed"], execution.status) == (1, ExecutionStatus.COMPLETED)


def test_each_item_is_decided_by_the_policy(rig: EngineRig, work: Work) -> None:
    (execution,) = rig.wait(start(rig, batch(1), denied_tools=["work"])).executions
    assert "not allowed" in json.loads(execution.output or "")["items"][0]["error"]


def test_items_that_need_approval_wait_while_others_run(rig: EngineRig, work: Work) -> None:
    run_id = start(rig, batch(1, 11, 12, 2))
    until(lambda: ToolExecution.objects.filter(batch_id__isnull=False, status="Completed").count() == 2)
    first, second = Approval.objects.filter(status="pending").order_by("execution__call_index")
    asked = Event.objects.filter(type="approval.requested").count()
    assert asked == 2 and Event.objects.filter(type="tool.requested").count() == 3
    (turn,) = queries.read_newest(Session.objects.get(), allowed_decisions=()).turn_views
    cards = [part for part in turn.parts if getattr(part, "tool", "") == "work"]
    assert [card.approval is not None for card in cards] == [True, True], "a reader who comes later can decide"
    tools.decide_approval(first.pk, decision="allow_once", actor="user:1", policy=policy_of(run_id))
    tools.decide_approval(second.pk, decision="deny", actor="user:1", policy=policy_of(run_id))
    (execution,) = rig.wait(run_id).executions
    items = json.loads(execution.output or "")["items"]
    assert [item["status"] for item in items] == ["success", "success", "error", "success"]
    assert "denied" in items[2]["error"]


def test_a_permission_for_the_run_releases_all_items(rig: EngineRig, work: Work) -> None:
    run_id = start(rig, batch(11, 11, 11))
    until(lambda: Approval.objects.filter(status="pending").count() == 3)
    first = Approval.objects.order_by("execution__call_index")[0]
    tools.decide_approval(first.pk, decision="allow_run", actor="user:1", policy=policy_of(run_id))
    (execution,) = rig.wait(run_id).executions
    assert json.loads(execution.output or "")["succeeded"] == 3


def test_stopping_the_run_ends_all_items(rig: EngineRig, work: Work) -> None:
    work.may_go_on.clear()
    run_id = start(rig, batch(*range(1, 7)))
    until(lambda: work.running)
    RestCaller(rig.owner)("POST", f"sessions/{Run.objects.get().conversation_id}/cancel", {})
    assert rig.wait(run_id).run.status is RunStatus.CANCELLED
    assert not ToolExecution.objects.filter(status__in=("Pending", "Running")).exists()
    assert last_progress()["completed_at"] is not None
    assert {item["status"] for item in last_progress()["items"]} == {"error"}


def test_cancelling_the_batch_ends_its_items_and_the_run_continues(rig: EngineRig, work: Work) -> None:
    work.may_go_on.clear()
    run_id = start(rig, batch(*range(1, 7)))
    until(lambda: work.running)
    assert tools.cancel_execution(ToolExecution.objects.get(tool="batch").pk)
    work.may_go_on.set()
    transcript = rig.wait(run_id)
    assert transcript.run.status is RunStatus.COMPLETED
    assert transcript.executions[0].status is ExecutionStatus.CANCELLED
    assert not ToolExecution.objects.filter(status__in=("Pending", "Running")).exists()


def test_a_program_reads_the_state_of_the_batch(rig: EngineRig, work: Work) -> None:
    work.may_go_on.clear()
    run_id = start(rig, batch(4, 0))
    until(lambda: work.running == 2)
    caller = RestCaller(rig.owner)
    (found,) = caller("GET", f"runs/{run_id}").data["batches"]
    assert (found["toolName"], found["total"], found["done"]) == ("work", 2, 0)
    assert [item["status"] for item in found["items"]] == ["running", "running"]
    work.may_go_on.set()
    rig.wait(run_id)
    (found,) = caller("GET", f"runs/{run_id}").data["batches"]
    assert (found["done"], found["failed"]) == (2, 1) and "Zero" in found["items"][1]["message"]
    item = caller("GET", f"tools/executions/{found['items'][0]['executionId']}").data
    assert item["status"] == "Completed" and item["receipt"]


def policy_of(run_id: UUID) -> Any:

    return tools.CurrentPolicy(run_policy.policy_of(Run.objects.select_related("agent__provider").get(pk=run_id)))
