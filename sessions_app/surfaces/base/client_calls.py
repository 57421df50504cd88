"""Outputs of a client's tools, found and stored by the ids of their calls. Synchronous.

A client sends the whole conversation again with the outputs, or only the outputs. Either way the id of a call names our
execution, which names the run that waits.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User

from agents_app import selectors as agents
from agents_app import services as runs
from agents_app.types import Message
from audit_app.kernel.errors import NotFound
from sessions_app.access import access_execution
from sessions_app.surfaces.base.function_tools import ToolOutput, execution_of, invalid_param
from tools_app import catalogue
from tools_app import selectors as tools
from tools_app.types import ExecutionStatus, ExecutionView


@dataclass(frozen=True)
class Calls:
    """The calls of one step that a client has made. outputs: by execution.

    are_answered: an earlier request brought the outputs.
    """

    run_id: UUID
    session_id: UUID
    step: int
    outputs: Mapping[UUID, str]
    are_answered: bool


def check_names(client_tools: Sequence[Mapping[str, Any]], agent_id: str) -> None:
    """Raise InvalidInput (tool_name_taken) if a tool of a client has the name of one that the agent has."""
    for index, tool in enumerate(client_tools):
        if catalogue.find_tool(tool["name"], agent_id):
            message = f"The agent has a tool {tool['name']!r} itself: call yours by another name."
            raise invalid_param(message, f"tools[{index}]", "tool_name_taken")


def find(user: User, given: Sequence[ToolOutput], agent_id: str, param: str) -> Calls | None:
    """Return the calls of the user that a request brings the outputs for; None if there are none that count.

    Those of a run that ended without the outputs, or of another agent, do not count: the conversation is answered anew.
    param: the name of the parameter that has the outputs, for errors.
    Raises InvalidInput (missing_tool_output) if outputs of the same step are missing.
    """
    found = [call for output in given if (call := _find(user, output.call_id))]
    if not found:
        return None
    last = max(found, key=lambda call: (call.run_id, call.step))
    step = [call for call in tools.list_executions(last.run_id) if call.step == last.step and call.client_until]
    texts = {execution_of(output.call_id): output.text for output in given}
    outputs = {call.id: texts[call.id] for call in step if call.id in texts}
    are_answered = all(call.status is ExecutionStatus.COMPLETED for call in step)
    is_open = any(not call.status.is_terminal for call in step)
    if not (is_open or are_answered) or agents.get_run(last.run_id).agent_id != agent_id:
        runs.leave_client_calls(last.run_id)
        return None
    for call in step:
        if call.id not in outputs and not call.status.is_terminal:
            message = f"The output of the call of {call.tool} is missing: send those of all calls of a step together."
            raise invalid_param(message, param, "missing_tool_output")
    return Calls(last.run_id, last.session_id, last.step, outputs, are_answered)


def check_contained(given: Sequence[ToolOutput], history: Iterable[Message], param: str) -> None:
    """Raise InvalidInput (unknown_tool_call) for an output without its call. param: as for `find`."""
    called = {call.id for message in history for call in message.tool_calls}
    for output in given:
        if output.call_id not in called:
            message = f"No call {output.call_id!r} waits for an output, and the conversation does not contain it."
            raise invalid_param(message, param, "unknown_tool_call")


def _find(user: User, call_id: str) -> ExecutionView | None:
    execution_id = execution_of(call_id)
    try:
        call = access_execution(user, execution_id) if execution_id else None
        return call if call and call.client_until else None
    except NotFound:
        return None
