"""The next step of a run: a pure function of its recorded state, without database, clock, network or settings."""

from dataclasses import dataclass

from agents_app.types import RunStatus, Snapshot
from tools_app.types import ToolCall


@dataclass(frozen=True)
class Think:
    """Call the model for step `step`. may_call_tools: False on the last round, so that the model has to answer."""

    step: int
    may_call_tools: bool = True


@dataclass(frozen=True)
class Act:
    """Plan the tool calls that step `step` requested."""

    step: int
    calls: tuple[ToolCall, ...]


@dataclass(frozen=True)
class WaitForTools:
    """Park the run until its open executions have ended."""


@dataclass(frozen=True)
class End:
    """End the run.

    status: a terminal status
    code: stable error code; `length` if the model's own limit cut a completed answer; else empty
    message: the error, for users
    answer: the final text, partial unless the run completed
    """

    status: RunStatus
    code: str = ""
    message: str = ""
    answer: str = ""


NextStep = Think | Act | WaitForTools | End

CANCELLED = End(RunStatus.CANCELLED, "cancelled", "Stopped.")
DEFECT = End(
    RunStatus.FAILED, "internal_error", "Something went wrong inside Komand while it worked on this. Try again."
)
REPEATS = End(
    RunStatus.FAILED,
    "answer_repeats",
    "The model repeated the same text again and again, so its answer was stopped. Ask again in other words, or choose "
    "another model.",
)
_EMPTY_ANSWER = End(
    RunStatus.FAILED, "empty_answer", "The model ended without an answer. Try again, or check the agent's model."
)


def next_step(snapshot: Snapshot) -> NextStep:
    """Return the only decision of the engine, made again after every recorded change."""
    if snapshot.cancel_requested:
        return CANCELLED
    if not snapshot.steps:
        return _think_or_end(snapshot, 0)
    last = snapshot.steps[-1]
    if not last.tool_calls:
        if len(snapshot.user_turns) > last.turns_seen:
            return _think_or_end(snapshot, last.index + 1)
        if not last.text.strip():
            return _EMPTY_ANSWER
        return End(RunStatus.COMPLETED, "length" if last.finish_reason == "length" else "", answer=last.text)
    if snapshot.stopped:
        return stopped(snapshot.stopped)
    executions = [execution for execution in snapshot.executions if execution.step == last.index]
    if len(executions) < len(last.tool_calls):
        if _rounds(snapshot) > snapshot.limits.tool_rounds:
            return End(
                RunStatus.FAILED,
                "tool_rounds_exceeded",
                f"The agent called tools {snapshot.limits.tool_rounds} times in a row without reaching an answer, "
                "which is its limit. Ask a narrower question or raise the limit of the agent.",
            )
        return Act(last.index, last.tool_calls)
    if any(not execution.status.is_terminal for execution in executions):
        return WaitForTools()
    return _think_or_end(snapshot, last.index + 1)


def stopped(reason: str) -> End:
    """Return the end of a run that the emergency stop interrupts."""
    return End(RunStatus.CANCELLED, "stopped", reason)


def out_of_time(snapshot: Snapshot) -> End:
    """Return the end of a run that used up its active seconds."""
    return End(
        RunStatus.TIMED_OUT,
        "time_limit",
        f"The agent worked on this for {snapshot.limits.active_seconds:.0f} seconds, which is its limit. "
        "Ask a narrower question or raise the limit of the agent.",
    )


def too_long(characters: int) -> End:
    """Return the end of a run whose answer has reached the limit of characters."""
    return End(
        RunStatus.FAILED,
        "answer_too_long",
        f"The answer was stopped at {characters:,} characters, which is the limit. Ask for a shorter answer, or for "
        "one part at a time. An operator can raise KOMAND_MAX_ANSWER_CHARACTERS.",
    )


def _think_or_end(snapshot: Snapshot, step: int) -> NextStep:
    if snapshot.stopped:
        return stopped(snapshot.stopped)
    if snapshot.budget_refusal:
        return End(RunStatus.FAILED, "budget_exhausted", snapshot.budget_refusal)
    if snapshot.active_seconds >= snapshot.limits.active_seconds:
        return out_of_time(snapshot)
    return Think(step, may_call_tools=_rounds(snapshot) < snapshot.limits.tool_rounds)


def _rounds(snapshot: Snapshot) -> int:
    return sum(1 for step in snapshot.steps if step.tool_calls)
