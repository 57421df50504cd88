"""The workstreams of runs: list them, and write to one."""

from typing import Any

from agents_app import selectors as agents
from agents_app.types.child_runs import ChildView, title_of
from audit_app.kernel.database import in_db
from audit_app.kernel.shorten import shorten
from sessions_app import services
from sessions_app.access import access_run, access_session
from sessions_app.identity import rate_limits
from sessions_app.identity.principal import Principal
from sessions_app.surfaces.mcp.calls import Call
from sessions_app.surfaces.mcp.registry import Tool, parameters_of, tools

_MOST_LISTED = 100
_LONGEST_RESULT = 4_000


async def _list_workstreams(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    return await in_db(_listed, call.principal, arguments["run"])


def _listed(principal: Principal, run: str) -> dict[str, Any]:
    views = agents.list_subtree(access_run(principal.user, run).id)
    return {"workstreams": [_shown(view) for view in views[-_MOST_LISTED:]]}


def _shown(view: ChildView) -> dict[str, Any]:
    state = {"run": str(view.launch_id), "name": title_of(view.path), "state": view.state.value}
    waits = {"waits_for_a_message": view.is_idle and not view.is_paused, "paused": view.is_paused}
    result = {"result": shorten(view.result, _LONGEST_RESULT)} if view.result else {}
    return {**state, "phase": view.phase.value, **{name: True for name, is_so in waits.items() if is_so}, **result}


async def _message_run(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    return await in_db(_message, call.principal, **arguments)


def _message(principal: Principal, run: str, message: str) -> dict[str, Any]:
    view = access_run(principal.user, run)
    session = access_session(principal.user, view.conversation_id)
    rate_limits.take(rate_limits.chat_limit(), principal.actor)
    services.ask_workstream(session, view.id, message, actor=principal.actor)
    return {"run": str(view.id)}


tools.register(
    Tool(
        "list_workstreams",
        "List workstreams",
        "List the workstreams of a run, at any depth: what other agents do for it. The newest 100, oldest first.",
        parameters_of(("run",), run={"type": "string", "description": "`run` of ask_agent."}),
        True,
        _list_workstreams,
    )
)
tools.register(
    Tool(
        "message_run",
        "Write to a workstream",
        "Send a message of your user to a workstream: the next task of one that waits for a message. Its answer is "
        "`result` in list_workstreams.",
        parameters_of(
            ("run", "message"),
            run={"type": "string", "description": "`run` of list_workstreams."},
            message={"type": "string", "minLength": 1, "maxLength": services.LONGEST_TEXT},
        ),
        False,
        _message_run,
    )
)
