"""The doors by which other apps use tools: offer, plan, execute, cancel, sweep."""

from tools_app.executions.approvals import AlreadyDecided, ApprovalExpired, decide_approval
from tools_app.executions.cancel import cancel_execution, cancel_executions
from tools_app.executions.planner import Planned, StepContext, plan_executions, specs_for
from tools_app.executions.runner import execute
from tools_app.executions.sweeper import sweep
from tools_app.executions.user_input import Answered, answer_input

__all__ = [
    "AlreadyDecided",
    "Answered",
    "ApprovalExpired",
    "Planned",
    "StepContext",
    "answer_input",
    "cancel_execution",
    "cancel_executions",
    "decide_approval",
    "execute",
    "plan_executions",
    "specs_for",
    "sweep",
]
