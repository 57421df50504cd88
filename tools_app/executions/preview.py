"""Finds what a call waiting for approval would reach and change, from its arguments and its tool."""

import logging
from dataclasses import replace

from audit_app.kernel.host_names import with_letters
from tools_app import catalogue
from tools_app.executions import changes
from tools_app.policy import targets
from tools_app.types import ApprovalView, Change, ToolSpec

logger = logging.getLogger(__name__)


def find_change(approval: ApprovalView) -> Change | None:
    """Return the change, or None if there is none to show, or the tool fails to compute it."""
    tool = catalogue.find_tool(approval.tool, approval.agent_id)
    if tool is None:
        return None
    named = tool.spec.parameters.get("properties", {})
    if change := changes.find_change({name: value for name, value in approval.arguments.items() if name in named}):
        return change
    try:
        return tool.preview(
            approval.arguments, run_id=approval.run_id, session_id=approval.session_id, agent_id=approval.agent_id
        )
    except Exception:
        logger.exception("the preview of a call of %s failed", approval.tool)
        return None


def targets_first(approval: ApprovalView) -> ApprovalView:
    """Return the request with its targets and places, and with the arguments first that are targets.

    A model chooses the order of the arguments.
    """
    tool = catalogue.find_tool(approval.tool, approval.agent_id)
    spec = tool.spec if tool else ToolSpec(name=approval.tool, description="", parameters={})
    given = approval.arguments
    addresses = tuple(targets.urls_of(spec, given))
    named = (*(name for name, _ in addresses), *targets.targets_of(spec), *(spec.sends or ()))
    names = tuple(dict.fromkeys(name for name in named if name in given))
    hosts = (url.authority for _, text in addresses if (url := targets.read_address(text)))
    ordered = {name: given[name] for name in (*names, *(name for name in given if name not in names))}
    return replace(approval, arguments=ordered, targets=names, places=tuple(dict.fromkeys(map(with_letters, hosts))))
