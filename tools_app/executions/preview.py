"""Finds the change that a call waiting for approval would make, from its arguments or from its tool."""

import logging

from tools_app import catalogue
from tools_app.executions import changes
from tools_app.types import ApprovalView, Change

logger = logging.getLogger(__name__)


def find_change(approval: ApprovalView) -> Change | None:
    """Return the change, or None if there is none to show, or the tool fails to compute it."""
    if change := changes.find_change(approval.arguments):
        return change
    tool = catalogue.find_tool(approval.tool, approval.agent_id)
    if tool is None:
        return None
    try:
        return tool.preview(
            approval.arguments, run_id=approval.run_id, session_id=approval.session_id, agent_id=approval.agent_id
        )
    except Exception:
        logger.exception("the preview of a call of %s failed", approval.tool)
        return None
