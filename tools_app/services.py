"""Public operations on tool executions: plan, execute, cancel, approve, answer, sweep.

Other apps import the operations from here, the queries from `selectors` and the data from `types` and `events`. The
contract "Private modules of tools_app" in pyproject.toml lists the modules that they must not import.
"""

from tools_app.executions.approvals import (
    AlreadyDecided,
    ApprovalExpired,
    CurrentPolicy,
    SecondPersonNeeded,
    decide_approval,
)
from tools_app.executions.cancel import cancel_execution, cancel_executions
from tools_app.executions.client_calls import answer_client_calls, expire_client_calls
from tools_app.executions.planner import Planned, StepContext, plan_executions, specs_for
from tools_app.executions.runner import execute
from tools_app.executions.sweeper import SWEPT, sweep
from tools_app.executions.transitions import move_times
from tools_app.executions.user_input import Answered, answer_input
from tools_app.policy.decide import narrow

__all__ = [
    "SWEPT",
    "AlreadyDecided",
    "Answered",
    "ApprovalExpired",
    "CurrentPolicy",
    "Planned",
    "SecondPersonNeeded",
    "StepContext",
    "answer_client_calls",
    "answer_input",
    "cancel_execution",
    "cancel_executions",
    "decide_approval",
    "execute",
    "expire_client_calls",
    "move_times",
    "narrow",
    "plan_executions",
    "specs_for",
    "sweep",
]
