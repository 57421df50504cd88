"""The doors by which other apps use tools: offer, plan, execute, cancel, sweep."""

from tools_app.executions.approving import AlreadyDecided, ApprovalExpired, decide_approval
from tools_app.executions.cancelling import cancel_execution, cancel_executions
from tools_app.executions.executing import execute
from tools_app.executions.inputs import Answered, answer_input
from tools_app.executions.planning import Planned, plan_executions, specs_for
from tools_app.executions.sweeping import sweep

__all__ = [
    "AlreadyDecided",
    "Answered",
    "ApprovalExpired",
    "Planned",
    "answer_input",
    "cancel_execution",
    "cancel_executions",
    "decide_approval",
    "execute",
    "plan_executions",
    "specs_for",
    "sweep",
]
