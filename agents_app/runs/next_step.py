"""What a run does next: a pure function of what is recorded. No database, clock, network or settings here."""

from dataclasses import dataclass

from agents_app.types import Snapshot
from tools_app.types import ToolCall


@dataclass(frozen=True)
class Think:
    """Call the model for step `step`. may_call_tools: False on the last round, so that the model has to answer."""

    step: int
    may_call_tools: bool = True


@dataclass(frozen=True)
class Act:
    """Plan these calls, which step `step` asked for."""

    step: int
    calls: tuple[ToolCall, ...]


@dataclass(frozen=True)
class Answer:
    """The run is over; this is what it says. reason: `length` when the model's own limit cut it, else empty."""

    text: str
    reason: str = ""


@dataclass(frozen=True)
class WaitForTools:
    """Park until the open executions have ended."""


@dataclass(frozen=True)
class Cancel:
    """End as cancelled, keeping what was said. code: `cancelled`, or `stopped` by the emergency stop."""

    code: str = "cancelled"
    message: str = "Stopped."


@dataclass(frozen=True)
class Fail:
    """End with an error that the person can read. timed_out: a time limit did it."""

    code: str
    message: str
    timed_out: bool = False


NextStep = Think | Act | Answer | WaitForTools | Cancel | Fail


def next_step(snapshot: Snapshot) -> NextStep:
    """The one decision of the engine, taken again after everything that is recorded."""
    if snapshot.cancel_requested:
        return Cancel()
    if not snapshot.steps:
        return _think_or_stop(snapshot, 0)
    last = snapshot.steps[-1]
    if not last.tool_calls:
        if len(snapshot.user_turns) > last.turns_seen:
            return _think_or_stop(snapshot, last.index + 1)
        return _answer(last.text, last.finish_reason)
    if snapshot.stopped:
        return stopped(snapshot.stopped)
    executions = [execution for execution in snapshot.executions if execution.step == last.index]
    if len(executions) < len(last.tool_calls):
        if _rounds(snapshot) > snapshot.limits.tool_rounds:
            return Fail(
                "tool_rounds_exceeded",
                f"The agent called tools {snapshot.limits.tool_rounds} times in a row without reaching an answer, "
                "which is its limit. Ask a narrower question or raise the limit of the agent.",
            )
        return Act(last.index, last.tool_calls)
    if any(not execution.status.is_terminal for execution in executions):
        return WaitForTools()
    return _think_or_stop(snapshot, last.index + 1)


def stopped(why: str) -> Cancel:
    """The end of a run that the emergency stop found at work."""
    return Cancel("stopped", why)


def _think_or_stop(snapshot: Snapshot, step: int) -> NextStep:
    if snapshot.stopped:
        return stopped(snapshot.stopped)
    if snapshot.budget_refusal:
        return Fail("budget_exhausted", snapshot.budget_refusal)
    if snapshot.active_seconds >= snapshot.limits.active_seconds:
        return out_of_time(snapshot)
    return Think(step, may_call_tools=_rounds(snapshot) < snapshot.limits.tool_rounds)


def _rounds(snapshot: Snapshot) -> int:
    return sum(1 for step in snapshot.steps if step.tool_calls)


def out_of_time(snapshot: Snapshot) -> Fail:
    """The end of a run that used up its time."""
    return Fail(
        "time_limit",
        f"The agent worked on this for {snapshot.limits.active_seconds:.0f} seconds, which is its limit. "
        "Ask a narrower question or raise the limit of the agent.",
        timed_out=True,
    )


def defect() -> Fail:
    """The end of a run over a fault of our own."""
    return Fail("internal_error", "Something went wrong inside Komand while it worked on this. Try again.")


def _answer(text: str, finish_reason: str) -> NextStep:
    if not text.strip():
        return Fail("empty_answer", "The model ended without saying anything. Try again, or check the agent's model.")
    return Answer(text, reason="length" if finish_reason == "length" else "")
