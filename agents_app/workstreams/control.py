"""Tools that message, steer, end, await and list the workstreams of a run."""

from typing import Any
from uuid import UUID

from agents_app import selectors
from agents_app.models import Run, children_of
from agents_app.runs import children
from agents_app.types.child_runs import WAIT_TOOL
from agents_app.workstreams.base import WORKSTREAM, WorkstreamTool, declare, find, pick, shown
from audit_app.kernel.ids import derived_id
from tools_app.parameters import parameters, text
from tools_app.types import Effect, ToolContext


def _key_of(context: ToolContext) -> UUID:
    """Return the id of the message that a call sends, so that a repeated call sends one."""
    return derived_id(context.execution_id, "message")


def _note_of(row: Run) -> dict[str, str]:
    """Return a note for the model about what a message or a command means to a network."""
    text = "It is a network: texts go to the tasks that start from now on, and while it is paused none start."
    return {"note": text} if row.options.get("network") else {}


class MessageWorkstream(WorkstreamTool):
    spec = declare(
        "message_workstream",
        "Send a message to a workstream: the next task of one that waits for you.",
        parameters("workstream", "message", workstream=WORKSTREAM, message=text("", minLength=1, maxLength=20_000)),
    )

    def act(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        row = find(context, arguments["workstream"])
        children.message_child(context.run_id, row.pk, arguments["message"], key=_key_of(context))
        return {"launch_id": str(row.pk), "state": "running", **_note_of(row)}


class SteerWorkstream(WorkstreamTool):
    spec = declare(
        "steer_workstream",
        "Change how a workstream works: add an instruction or a constraint, set its priority, pause or resume it.",
        parameters(
            "workstream",
            "command",
            workstream=WORKSTREAM,
            command={"type": "string", "enum": [*children.COMMANDS]},
            text=text("", maxLength=4_000),
        ),
    )

    def act(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        row = find(context, arguments["workstream"])
        command, text = arguments["command"], arguments.get("text", "")
        children.steer_child(context.run_id, row.pk, command, text, key=_key_of(context))
        return {"launch_id": str(row.pk), "command": command, **_note_of(row)}


class TerminateWorkstream(WorkstreamTool):
    spec = declare(
        "terminate_workstream",
        "End a workstream. One that works gets 60 seconds to answer with what it has.",
        parameters("workstream", workstream=WORKSTREAM, reason=text("", maxLength=500)),
    )

    def act(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        row = find(context, arguments["workstream"])
        children.terminate_child(context.run_id, row.pk, reason=arguments.get("reason", ""))
        return shown(selectors.get_child(row.pk))


class ListWorkstreams(WorkstreamTool):
    spec = declare("list_workstreams", "List your workstreams with their states.", parameters(), effect=Effect.READ)

    def act(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        rows = list(Run.objects.select_related("agent").filter(children_of(context.run_id)).order_by("id"))
        return {"workstreams": [shown(view) for view in selectors.child_views(rows)]}


class WaitWorkstreams(WorkstreamTool):
    """Parks the run. The call itself ends at once: `next_step` calls no model until what it waits for has happened."""

    spec = declare(
        WAIT_TOOL,
        "Wait until workstreams have a result, and get it: all that you name, or all of yours; or, with until=any, the "
        "first one. Costs nothing while you wait.",
        parameters(
            workstreams={"type": "array", "items": WORKSTREAM, "maxItems": 100},
            until={"type": "string", "enum": ["all", "any"]},
        ),
        effect=Effect.READ,
    )

    def act(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return {"workstreams": names}. What they have done comes as messages."""
        rows = list(Run.objects.filter(children_of(context.run_id)).order_by("-id").only("workstream"))
        named = [pick(rows, name) for name in arguments.get("workstreams", ())]
        return {"workstreams": [row.workstream for row in named or reversed(rows)]}
