"""Failures of robots. A failure is raised, never returned as an answer."""

from agents_app.robots.results import RobotResult
from audit_app.kernel.errors import AppError


class RobotError(AppError):
    """A run of a robot that has no answer. result: its texts and tool calls so far."""

    code = "robot_failed"

    def __init__(self, message: str, *, code: str = "", result: RobotResult | None = None) -> None:
        super().__init__(message, code=code or self.code)
        self.result = result


class ModelFailed(RobotError):
    """The model could not be called, or its answer was not usable."""

    code = "model_error"


class LimitReached(RobotError):
    """The run has reached its limit of tool rounds, seconds or characters."""

    code = "limit_reached"


class BudgetExhausted(RobotError):
    """The next model call might cost more than is left of a budget."""

    code = "budget_exhausted"


class ApprovalNeeded(RobotError):
    """A tool call needs the approval of a person, and the robot has no `on_approval` that can give it."""

    code = "approval_needed"


class InputNeeded(RobotError):
    """A tool asks the user something, and the robot has no `on_question`."""

    code = "input_needed"


class RobotStopped(RobotError):
    """The run was cancelled, or an operator has stopped all agents."""

    code = "stopped"


_BY_CODE: dict[str, type[RobotError]] = {
    "budget_exhausted": BudgetExhausted,
    "cancelled": RobotStopped,
    "stopped": RobotStopped,
    "tool_rounds_exceeded": LimitReached,
    "time_limit": LimitReached,
    "answer_too_long": LimitReached,
    "answer_repeats": LimitReached,
}


def failure_of(code: str, message: str, result: RobotResult | None = None) -> RobotError:
    """Return the error for the code of an end or of a provider's error."""
    return _BY_CODE.get(code, ModelFailed)(message, code=code, result=result)
