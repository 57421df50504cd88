"""`update_plan`: stores the plan of a run, which people see beside the answer."""

from collections.abc import Iterable
from typing import Any

from tools_app import run_progress, selectors
from tools_app.events import PLAN_UPDATED
from tools_app.parameters import integer, parameters, text
from tools_app.run_progress import Plan
from tools_app.types import Effect, Reads, Report, Risk, Tool, ToolContext, ToolError, ToolSpec

_MOST_TASKS, _MOST_INSTRUCTIONS = 30, 5
_LONGEST_GOAL, _LONGEST_LINE = 200, 300


def _line(longest: int) -> dict[str, Any]:
    return text("", minLength=1, maxLength=longest, pattern=r"\S")


class UpdatePlan(Tool):
    """Stores a whole revision of the plan: the recorded call is the revision, so a repeated one changes nothing."""

    needs_run = True
    spec = ToolSpec(
        name=run_progress.UPDATE_PLAN,
        description="Show the person your plan for work of several steps, and each change of it: send all its tasks.",
        parameters=parameters(
            "tasks",
            tasks={
                "type": "array",
                "minItems": 1,
                "maxItems": _MOST_TASKS,
                "items": parameters(
                    "goal",
                    id=integer("As returned before; none for a new task.", 1, 9_999),
                    goal=_line(_LONGEST_GOAL),
                    status={"type": "string", "enum": list(run_progress.TASK_STATUSES)},
                    instructions={"type": "array", "items": _line(_LONGEST_LINE), "maxItems": _MOST_INSTRUCTIONS},
                    comment=_line(_LONGEST_LINE),
                ),
            },
            comment=text("Why it changed.", maxLength=_LONGEST_LINE),
        ),
        effect=Effect.KEYED,
        risk=Risk.LOW,
        timeout_seconds=10,
        reads=Reads.NOTHING,
        sends=(),
    )

    def check(self, arguments: dict[str, Any]) -> None:
        ids = [task["id"] for task in arguments["tasks"] if "id" in task]
        if repeated := sorted({each for each in ids if ids.count(each) > 1}):
            raise ToolError(f"Tasks have the same id: {repeated}. Give each task an id of its own, or none.")

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return {"tasks": [{"id", "goal", "status", "instructions"?, "comment"?}], "comment"}."""
        before = run_progress.find_plan(selectors.list_executions(context.run_id))
        ids = _ids(arguments["tasks"], before or Plan())
        tasks = [
            {"status": "pending", **task, "id": task_id} for task, task_id in zip(arguments["tasks"], ids, strict=True)
        ]
        return {"tasks": tasks, "comment": arguments.get("comment", "")}

    def report_of(self, value: Any) -> Report:
        return PLAN_UPDATED, value


def _ids(tasks: Iterable[dict[str, Any]], before: Plan) -> list[int]:
    """Return the id of each task: as given, as that of a task with the same goal before, or the next free one."""
    given = {task["id"] for task in tasks if "id" in task}
    known = {task.goal: task.id for task in before.tasks if task.id not in given}
    next_id = max((*given, *(task.id for task in before.tasks)), default=0) + 1
    ids = []
    for task in tasks:
        task_id = task.get("id") or known.pop(task["goal"], None)
        if task_id is None:
            task_id, next_id = next_id, next_id + 1
        ids.append(task_id)
    return ids
