"""The tasks extension of the newer revision: tasks are read, answered and cancelled by their ids."""

from typing import Any

import mcp_types as types
from mcp.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from audit_app.kernel.database import in_db
from sessions_app.surfaces.mcp import results
from sessions_app.surfaces.mcp.calls import TASKS, Call, Context
from sessions_app.surfaces.mcp.handlers import as_protocol_error
from sessions_app.surfaces.mcp.registry import TaskKind, find_tasks

_DONE = {"resultType": "complete"}


class TaskParams(types.RequestParams):
    task_id: str


class AnswerParams(TaskParams):
    input_responses: dict[str, Any] = {}


async def _get(context: Context, params: TaskParams) -> dict[str, Any]:
    call = _admitted(context, params)
    state = await _do(params, lambda kind: kind.get, call.principal, params.task_id)
    return results.task(params.task_id, state)


async def _answer(context: Context, params: AnswerParams) -> dict[str, Any]:
    call = _admitted(context, params)
    await _do(params, lambda kind: kind.answer, call.principal, params.task_id, params.input_responses)
    return dict(_DONE)


async def _cancel(context: Context, params: TaskParams) -> dict[str, Any]:
    call = _admitted(context, params)
    await _do(params, lambda kind: kind.cancel, call.principal, params.task_id)
    return dict(_DONE)


async def _do(params: TaskParams, work: Any, *arguments: Any) -> Any:
    try:
        kind: TaskKind = find_tasks(params.task_id)
        return await in_db(work(kind), *arguments)
    except Exception as error:
        raise as_protocol_error(error) from None


def _admitted(context: Context, params: TaskParams) -> Call:
    """Return the call. Raises the protocol's errors for a client that does not take tasks, and for a wrong header."""
    if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        raise MCPError(types.METHOD_NOT_FOUND, "Method not found", context.method)
    call = Call(context)
    if context.request is None or context.request.headers.get("mcp-name") != params.task_id:
        raise MCPError(types.HEADER_MISMATCH, "The header Mcp-Name must be the id of the task.")
    if not call.takes_tasks:
        data: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "The client has not declared this extension.", data)
    return call


def install(server: Server[Any]) -> None:
    """Let the server offer the extension."""
    server.extensions[TASKS] = {}
    server.add_request_handler("tasks/get", TaskParams, _get)
    server.add_request_handler("tasks/update", AnswerParams, _answer)
    server.add_request_handler("tasks/cancel", TaskParams, _cancel)
