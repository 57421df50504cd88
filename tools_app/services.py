"""The doors by which other apps use tools: offer, plan, execute, cancel, sweep."""

from tools_app.approving import AlreadyDecided, ApprovalExpired, decide_approval
from tools_app.cancelling import cancel_execution, cancel_executions
from tools_app.executing import execute
from tools_app.planning import Planned, plan_executions, specs_for
from tools_app.sweeping import sweep

__all__ = [
    "AlreadyDecided",
    "ApprovalExpired",
    "Planned",
    "cancel_execution",
    "cancel_executions",
    "decide_approval",
    "execute",
    "plan_executions",
    "specs_for",
    "sweep",
]
