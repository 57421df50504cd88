"""The ids of the tasks of a plan, and the plan of recorded calls."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tools_app import selectors
from tools_app.builtin.report_progress import ReportProgress
from tools_app.builtin.update_plan import UpdatePlan
from tools_app.events import PLAN_UPDATED, PROGRESS_REPORTED
from tools_app.run_progress import Plan, PlanTask, Progress, find_plan, find_progress
from tools_app.types import ExecutionStatus, ExecutionView, ToolContext, ToolError

RUN, NOW = UUID(int=1), datetime(2026, 1, 1, tzinfo=UTC)
CONTEXT = ToolContext(UUID(int=2), RUN, UUID(int=3), "default", "user:1", "key", 10)


def call(number: int, output: Any, tool: str = "update_plan", **changes: Any) -> ExecutionView:
    fields: dict[str, Any] = {
        "id": UUID(int=number),
        "run_id": RUN,
        "session_id": UUID(int=3),
        "agent_id": "default",
        "step": 0,
        "call_index": number,
        "call_id": "c",
        "tool": tool,
        "arguments": {},
        "status": ExecutionStatus.COMPLETED,
        "output": output if isinstance(output, str) else json.dumps(output),
        "error": None,
        "timeout_seconds": 10,
        "created_at": NOW,
        "started_at": NOW,
        "completed_at": NOW + timedelta(seconds=number),
    }
    return ExecutionView(**{**fields, **changes})


def plan(*tasks: dict[str, Any], comment: str = "") -> dict[str, Any]:
    return {"tasks": [{"status": "pending", **task} for task in tasks], "comment": comment}


def update(before: tuple[ExecutionView, ...], *tasks: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    monkeypatch.setattr(selectors, "list_executions", lambda run_id: before)
    return [task["id"] for task in UpdatePlan().run({"tasks": list(tasks)}, CONTEXT)["tasks"]]


def test_new_tasks_are_numbered_from_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert update((), {"goal": "Look"}, {"goal": "Write"}, monkeypatch=monkeypatch) == [1, 2]


def test_a_task_keeps_its_id_and_no_id_is_used_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    before = (call(1, plan({"id": 1, "goal": "Look"}, {"id": 2, "goal": "Write"})),)
    tasks = ({"goal": "Write"}, {"goal": "Check"}, {"id": 1, "goal": "Look again"}, {"goal": "Look"})
    assert update(before, *tasks, monkeypatch=monkeypatch) == [2, 3, 1, 4]


def test_equal_ids_are_refused() -> None:
    with pytest.raises(ToolError, match="same id"):
        UpdatePlan().check({"tasks": [{"id": 1, "goal": "a"}, {"id": 1, "goal": "b"}]})


def test_the_newest_completed_call_is_the_plan() -> None:
    older, newer = call(1, plan({"id": 1, "goal": "a"})), call(2, plan({"id": 1, "goal": "b"}, comment="Why"))
    failed = call(3, plan({"id": 1, "goal": "c"}), status=ExecutionStatus.FAILED)
    withheld = call(4, json.dumps("[withheld]"))
    assert find_plan([newer, failed, withheld, older]) == Plan((PlanTask(1, "b"),), "Why")
    assert find_plan([failed, call(5, "no JSON"), call(6, {}, "echo")]) is None


def test_a_plan_is_done_when_nothing_is_left_to_do() -> None:
    tasks = (PlanTask(1, "a", "completed"), PlanTask(2, "b", "skipped"))
    assert Plan(tasks).is_done and Plan(tasks).done == 2
    assert not Plan((*tasks, PlanTask(3, "c", "in_progress"))).is_done


def test_secrets_are_masked() -> None:
    secret = "sk-abcdefghijklmnopqrst"
    found = find_plan([call(1, plan({"id": 1, "goal": f"Use {secret}"}))])
    assert found and secret not in found.tasks[0].goal


def test_progress_is_what_was_reported_last() -> None:
    value = ReportProgress().run({"text": "Reading"}, CONTEXT)
    assert value == {"text": "Reading", "percent": None, "phase": ""}
    last = {"text": "Writing", "percent": 80, "phase": "Report"}
    found = find_progress([call(1, value, "report_progress"), call(2, last, "report_progress")])
    assert found == Progress("Writing", 80, "Report")


def test_the_results_are_events() -> None:
    assert UpdatePlan().report_of({"tasks": []}) == (PLAN_UPDATED, {"tasks": []})
    assert ReportProgress().report_of({"text": "a"}) == (PROGRESS_REPORTED, {"text": "a"})
