"""What tools_app stores: one module per table and what belongs to it."""

from tools_app.models.approvals import Approval
from tools_app.models.executions import IS_OPEN, ToolExecution

__all__ = ["IS_OPEN", "Approval", "ToolExecution"]
