"""Finds what a call that waits for approval would change: from its arguments, or from the tool that would run it."""

import logging

from tools_app import catalogue
from tools_app.executions import changes
from tools_app.types import ApprovalView, Change

logger = logging.getLogger(__name__)


def find_change(approval: ApprovalView) -> Change | None:
    """None when there is nothing to be shown as a change. A tool that fails to tell costs its preview only."""
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
        logger.exception("%s could not say what its call would change", approval.tool)
        return None
