"""`run_network`: starts a stored network as a child run."""

from typing import Any

from agents_app.configuration import agent_access
from agents_app.models import StoredNetwork
from agents_app.network_runs import library
from agents_app.runs import network_step
from agents_app.runs.children import NewChild, start_child
from agents_app.types import RunOptions
from agents_app.types.child_runs import NETWORK_TOOL, ChildSpec
from agents_app.workstreams.base import WorkstreamTool, declare
from audit_app.kernel.errors import NotFound
from audit_app.kernel.ids import derived_id
from tools_app.parameters import parameters, text
from tools_app.types import ToolContext, ToolError

_MOST_NAMES = 30


class RunNetwork(WorkstreamTool):
    """Starts a network that the person may run. Its tasks have no more rights than the run that called the tool."""

    spec = declare(
        NETWORK_TOOL,
        "Start a network of agents, which works beside you like a workstream. Returns at once; its result reaches you "
        "as a message. Use wait_workstreams when you have nothing else to do.",
        parameters(
            "name",
            "message",
            name=text("Of the network.", pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,59}$"),
            message=text("Its whole task: it sees nothing of this conversation.", minLength=1, maxLength=20_000),
            context={"type": "object", "description": "Values that its prompts use."},
        ),
    )

    def act(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return {"launch_id", "id", "state"}. Raises ToolError and AppError."""
        stored = _runnable(context, arguments["name"])
        seconds = network_step.deadline_of(network_step.read(stored.definition).time_limit)
        child = start_child(
            NewChild(
                id=derived_id(context.execution_id, stored.name),
                parent_id=context.run_id,
                workstream=f"network_{stored.name}_{context.execution_id.hex[-6:]}",
                spec=ChildSpec(f"network {stored.name}", arguments["message"], deadline_seconds=seconds),
                options=RunOptions(network=library.options_of(stored, arguments.get("context"))),
            )
        )
        return {"launch_id": str(child.pk), "id": child.workstream, "state": "running"}


def _runnable(context: ToolContext, name: str) -> StoredNetwork:
    """Return the network if the person behind the run may run it. Raises ToolError with those that may be run."""
    user = agent_access.user_of(context.session_id, context.actor)
    try:
        return library.get_runnable(user, name, agent_access.agents_for(user))
    except NotFound as error:
        known = ", ".join(library.visible_networks(user).values_list("name", flat=True)[:_MOST_NAMES]) or "none"
        raise ToolError(f"{error.message} Networks that you may run: {known}.") from None
