"""Finds what a call waiting for approval would reach and change, from its arguments and its tool."""

import logging
from collections.abc import Iterator
from dataclasses import replace

from audit_app.kernel.host_names import with_letters
from tools_app import catalogue
from tools_app.executions import changes
from tools_app.policy import targets
from tools_app.types import ApprovalView, Change, TargetKind, ToolSpec

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
    urls = {name: found for name in given if (found := tuple(_urls(approval, name, spec)))}
    names = tuple(
        dict.fromkeys(name for name in (*urls, *targets.targets_of(spec), *(spec.sends or ())) if name in given)
    )
    hosts = (url.authority for texts in urls.values() for text in texts if (url := targets.read_url(text)))
    ordered = {name: given[name] for name in (*names, *(name for name in given if name not in names))}
    return replace(approval, arguments=ordered, targets=names, places=tuple(dict.fromkeys(map(with_letters, hosts))))


def _urls(approval: ApprovalView, name: str, spec: ToolSpec) -> Iterator[str]:
    value = approval.arguments[name]
    if targets.targets_of(spec).get(name) is TargetKind.URL:
        yield from targets.texts_in(value)
    elif isinstance(value, str) and targets.is_url_like(value):
        yield value
