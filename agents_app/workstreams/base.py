"""Base of the tools of workstreams: execution, lookup by name, and the form in which the model sees one."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from agents_app import hot_queries
from agents_app.configuration.agent_versions import use_version
from agents_app.models import Run, children_of
from agents_app.runs.children import lock_in_tree
from agents_app.types.child_runs import ChildView
from audit_app.kernel.database import retry_until_stored
from audit_app.kernel.errors import AppError, NotFound
from tools_app.parameters import text
from tools_app.types import AsyncTool, Effect, Reads, Risk, ToolContext, ToolError, ToolSpec

WORKSTREAM = text("Its id or launch_id.", minLength=1, maxLength=120)


class WorkstreamTool(AsyncTool):
    """A tool about the workstreams of its run. It changes rows of this installation alone.

    A call is repeated while the database is away: ids that are derived from the call's keep it idempotent.
    """

    needs_run = True

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        try:
            return await retry_until_stored(self.act, arguments, context)
        except AppError as error:
            raise ToolError(error.message) from None

    @abstractmethod
    def act(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Carry out the call. Synchronous. Raises ToolError and AppError."""


def declare(
    name: str,
    description: str,
    parameters: dict[str, Any],
    *,
    effect: Effect = Effect.KEYED,
    reads: Reads = Reads.STORED,
) -> ToolSpec:
    """Return the spec of a tool of workstreams, whose rights are never more than its agent's own."""
    return ToolSpec(name, description, parameters, effect, Risk.LOW, timeout_seconds=30, reads=reads, sends=())


def get_parent(context: ToolContext) -> Run:
    """Return the run that makes a call, with its agent in the version that it uses. Raises ToolError."""
    run = hot_queries.GET_CLAIMED_RUN.first(run_id=context.run_id)
    if run is None:
        raise ToolError("The run was deleted.")
    return use_version(run)


def lock_parent(context: ToolContext) -> Run:
    """Lock the run that makes a call, and its root, and return it as `get_parent` does. Raises ToolError."""
    try:
        return use_version(lock_in_tree(context.run_id))
    except NotFound:
        raise ToolError("The run was deleted.") from None


def find(context: ToolContext, named: str) -> Run:
    """Return the workstream of the run with this launch id or name, with its agent. Raises what `pick` raises."""
    return pick(list(Run.objects.select_related("agent").filter(children_of(context.run_id)).order_by("-id")), named)


def pick(rows: Sequence[Run], named: str) -> Run:
    """Return the workstream with this launch id or name; of several with the name the newest.

    rows: the workstreams of a run, newest first. Raises ToolError with the names that exist.
    """
    for row in rows:
        if named in (str(row.pk), row.workstream):
            return row
    known = ", ".join(dict.fromkeys(row.workstream for row in rows)) or "none"
    raise ToolError(f"There is no workstream {named!r}. Yours: {known}.")


def shown(view: ChildView) -> dict[str, Any]:
    """Return a workstream as the model sees it."""
    state: dict[str, Any] = {
        "launch_id": str(view.launch_id),
        "id": view.workstream,
        "name": view.name,
        "state": view.state.value,
        "phase": view.phase.value,
    }
    optional = {
        "tool": view.current_tool,
        "waits_for_you": view.is_idle,
        "paused": view.is_paused,
        "asks_a_person": view.asks,
        "deadline": view.deadline_at.isoformat(timespec="seconds") if view.deadline_at and not view.ended_at else "",
        "error": view.error,
    }
    return state | {key: value for key, value in optional.items() if value}
