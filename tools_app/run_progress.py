"""The plan, the progress and the batches of a run, read from its recorded calls."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from audit_app.kernel.redact import masked
from tools_app.types import ExecutionStatus, ExecutionView

UPDATE_PLAN, REPORT_PROGRESS, BATCH = "update_plan", "report_progress", "batch"
TASK_STATUSES = ("pending", "in_progress", "completed", "skipped")


@dataclass(frozen=True)
class PlanTask:
    """A task of a plan.

    id: the same in all revisions.
    status: one of TASK_STATUSES.
    """

    id: int
    goal: str
    status: str = "pending"
    instructions: tuple[str, ...] = ()
    comment: str = ""

    @property
    def status_label(self) -> str:
        return self.status.replace("_", " ")


@dataclass(frozen=True)
class Plan:
    """The whole plan of a run. comment: why it was changed last."""

    tasks: tuple[PlanTask, ...] = ()
    comment: str = ""

    @property
    def done(self) -> int:
        """Return the number of tasks on which nothing is left to do."""
        return sum(task.status in ("completed", "skipped") for task in self.tasks)

    @property
    def is_done(self) -> bool:
        return self.done == len(self.tasks)


@dataclass(frozen=True)
class Progress:
    """The progress of a run.

    percent: None if unknown.
    phase: phase of the work, or empty.
    """

    text: str
    percent: int | None = None
    phase: str = ""

    @property
    def line(self) -> str:
        """Return all of it as one text, such as `Sources: Reading (40 %)`."""
        percent = "" if self.percent is None else f"({self.percent} %)"
        phase = f"{self.phase}:" if self.phase else ""
        return " ".join(filter(None, (phase, self.text, percent)))


@dataclass(frozen=True)
class BatchItem:
    """One call of a batch.

    status: pending | running | success | error.
    message: why it failed or waits.
    """

    id: str
    execution_id: UUID
    status: str
    message: str = ""
    duration_ms: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the item without what it does not have."""
        optional = {"message": self.message or None, "duration_ms": self.duration_ms}
        given = {name: value for name, value in optional.items() if value is not None}
        return {"id": self.id, "execution_id": str(self.execution_id), "status": self.status, **given}


@dataclass(frozen=True)
class Batch:
    """A tool that is called for each item of a list. Times are milliseconds since 1970."""

    execution_id: UUID
    tool: str
    items: tuple[BatchItem, ...]
    started_at: int
    completed_at: int | None = None

    @property
    def total(self) -> int:
        return len(self.items)

    @property
    def done(self) -> int:
        return sum(item.status in ("success", "error") for item in self.items)

    @property
    def failed(self) -> int:
        return len(self.failures)

    @property
    def failures(self) -> tuple[BatchItem, ...]:
        return tuple(item for item in self.items if item.status == "error")


def batch_of(value: Any) -> Batch:
    """Return the batch of the payload of `batch.progress`."""
    items = (
        BatchItem(
            item["id"], UUID(item["execution_id"]), item["status"], item.get("message", ""), item.get("duration_ms")
        )
        for item in value["items"]
    )
    return Batch(UUID(value["batch_id"]), value["tool"], tuple(items), value["started_at"], value["completed_at"])


def find_plan(executions: Iterable[ExecutionView]) -> Plan | None:
    """Return the plan that was stored last among these calls of a run, None without one."""
    value = _last_result(executions, UPDATE_PLAN)
    return plan_of(value) if value else None


def find_progress(executions: Iterable[ExecutionView]) -> Progress | None:
    """Return the progress that was reported last among these calls of a run, None without any."""
    value = _last_result(executions, REPORT_PROGRESS)
    return progress_of(value) if value else None


def plan_of(value: Any) -> Plan:
    """Return the plan of a result of `update_plan`, or of the payload of `plan.updated`."""
    tasks = (
        PlanTask(task["id"], task["goal"], task["status"], tuple(task.get("instructions", ())), task.get("comment", ""))
        for task in value["tasks"]
    )
    return Plan(tuple(tasks), value.get("comment", ""))


def progress_of(value: Any) -> Progress:
    """Return the progress of a result of `report_progress`, or of the payload of `progress.reported`."""
    return Progress(value["text"], value["percent"], value["phase"])


def _last_result(executions: Iterable[ExecutionView], tool: str) -> Any:
    """Return the result of the tool's call that completed last, with its secrets masked; None without one."""
    done = [one for one in executions if one.tool == tool and one.status is ExecutionStatus.COMPLETED]
    for execution in sorted(done, key=lambda one: (one.completed_at or one.created_at, one.id), reverse=True):
        try:
            value = json.loads(execution.output or "")
        except ValueError:
            continue
        if isinstance(value, dict) and ("tasks" if tool == UPDATE_PLAN else "percent") in value:
            return masked(value)  # others are results that the guard against injections has withheld
    return None
