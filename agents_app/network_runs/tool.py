"""`run_network`: starts a stored network as a child run."""

from typing import Any

from django.contrib.auth.models import AnonymousUser, User

from agents_app.configuration import agent_access
from agents_app.network_runs import library
from agents_app.runs import network_step
from agents_app.runs.children import NewChild, start_child
from agents_app.types import RunOptions
from agents_app.types.child_runs import NETWORK_TOOL, ChildSpec
from agents_app.workstreams.base import WorkstreamTool, declare
from audit_app.kernel.errors import AppError
from audit_app.kernel.ids import derived_id
from tools_app.parameters import parameters, text
from tools_app.types import ToolContext, ToolError


class RunNetwork(WorkstreamTool):
    """Starts a network that the user may run. Its tasks have no more rights than the run that called the tool."""

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
        user = _user_of(context.actor)
        try:
            stored = library.get_runnable(user, arguments["name"], agent_access.usable_agents(user))
        except AppError as error:
            raise ToolError(error.message) from None
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


def _user_of(actor: str) -> User | AnonymousUser:
    kind, _, pk = actor.partition(":")
    found = User.objects.filter(pk=pk, is_active=True).first() if kind == "user" and pk.isdecimal() else None
    return found or AnonymousUser()
