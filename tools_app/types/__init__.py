"""Values of the tools, one module per subject. Pure."""

from tools_app.types.approvals import ApprovalStatus, ApprovalView, Decision
from tools_app.types.executions import ExecutionStatus, ExecutionView, result_text, without_receipt
from tools_app.types.tools import (
    AnyTool,
    AsyncTool,
    BaseTool,
    BatchTool,
    Change,
    ClientTool,
    Effect,
    HumanTool,
    Reads,
    Report,
    Risk,
    TargetKind,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolSpec,
)
from tools_app.types.views import view_of

__all__ = [
    "AnyTool",
    "ApprovalStatus",
    "ApprovalView",
    "AsyncTool",
    "BaseTool",
    "BatchTool",
    "Change",
    "ClientTool",
    "Decision",
    "Effect",
    "ExecutionStatus",
    "ExecutionView",
    "HumanTool",
    "Reads",
    "Report",
    "Risk",
    "TargetKind",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolSpec",
    "result_text",
    "view_of",
    "without_receipt",
]
