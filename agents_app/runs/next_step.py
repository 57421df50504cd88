"""The next step of a run: a pure function of its recorded state, without database, clock, network or settings."""

from dataclasses import dataclass, replace

from agents_app import structured_output
from agents_app.prompt.context_size import MOST_COMPACTIONS, exceeds_threshold
from agents_app.types import RunStatus, Snapshot, StepView
from agents_app.types.child_runs import WAIT_TOOL
from agents_app.types.context import ContextOverflow
from agents_app.types.message_parts import VoiceNote
from tools_app.types import ExecutionStatus, ExecutionView, ToolCall


@dataclass(frozen=True)
class Think:
    """Call the model for step `step`. may_call_tools: False on the last round, so that the model has to answer."""

    step: int
    may_call_tools: bool = True


@dataclass(frozen=True)
class Compact:
    """Have the model summarise earlier messages, then decide again. reason: threshold | overflow | asked."""

    reason: str


@dataclass(frozen=True)
class Transcribe:
    """Have a voice note of the run's messages transcribed, then decide again."""

    note: VoiceNote


@dataclass(frozen=True)
class Act:
    """Plan the tool calls that step `step` requested. is_refused: none may run, because the run was asked to finish."""

    step: int
    calls: tuple[ToolCall, ...]
    is_refused: bool = False


@dataclass(frozen=True)
class WaitForTools:
    """Park the run until its open executions have ended."""


@dataclass(frozen=True)
class WaitForChildren:
    """Park the run until one of its child runs has a result, or a message comes."""


@dataclass(frozen=True)
class WaitForParent:
    """Park a child run until a message of its parent comes. answer: the result of what it did, None if it is paused."""

    answer: str | None = None


@dataclass(frozen=True)
class End:
    """End the run.

    status: a terminal status
    code: stable error code; `length` if the model's own limit cut a completed answer; else empty
    message: the error, for users
    answer: the final text, partial unless the run completed
    unread_from: number of the user turns that the model has received, if the child runs of a root run go on without it
    """

    status: RunStatus
    code: str = ""
    message: str = ""
    answer: str = ""
    unread_from: int | None = None


ModelStep = Think | Compact | Transcribe  # the steps that need a model
NextStep = ModelStep | Act | WaitForTools | WaitForChildren | WaitForParent | End

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
TERMINATED = End(RunStatus.CANCELLED, "terminated", "Ended by its parent.")
PARENT_ENDED = End(RunStatus.CANCELLED, "parent_ended", "The run that had started it ended.")
DEADLINE = End(RunStatus.TIMED_OUT, "deadline", "It did not finish before its deadline.")
PAUSE_OVER = End(RunStatus.TIMED_OUT, "pause_over", "It was paused, and nobody resumed it within a day.")
_EMPTY_ANSWER = End(
    RunStatus.FAILED, "empty_answer", "The model ended without an answer. Try again, or check the agent's model."
)


def next_step(snapshot: Snapshot) -> NextStep:
    """Return the only decision of the engine, made again after every recorded change."""
    if snapshot.cancel_requested:
        return CANCELLED
    if snapshot.compacts_only and (snapshot.compactions or not snapshot.context.turns):
        return End(RunStatus.COMPLETED)
    if snapshot.reports_only and not snapshot.user_turns:
        return End(RunStatus.COMPLETED)  # another run has got them
    if not snapshot.steps:
        return _think_or_end(snapshot, 0)
    last = snapshot.steps[-1]
    if not last.tool_calls:
        return _after_answer(snapshot, last)
    if snapshot.stopped:
        return stopped(snapshot.stopped)
    executions = [execution for execution in snapshot.executions if execution.step == last.index]
    if len(executions) < len(last.tool_calls):
        return _act(snapshot, last)
    if any(not execution.status.is_terminal for execution in executions):
        return WaitForTools()
    if any(execution.is_abandoned for execution in executions):
        return End(RunStatus.COMPLETED)  # its client went on without it
    if not _is_finishing(snapshot) and any(_waits_for_children(snapshot, last, each) for each in executions):
        return _wait_or_leave(snapshot, last)
    return _think_or_end(snapshot, last.index + 1)


def _wait_or_leave(snapshot: Snapshot, last: StepView) -> WaitForChildren | End:
    """Wait for child runs; if another run waits for this one, end it with what it has, and let them go on."""
    if not snapshot.has_later_message:
        return WaitForChildren()
    answer = "" if last.tool_calls else last.text
    return End(RunStatus.COMPLETED, answer=answer, unread_from=last.turns_seen)


def _act(snapshot: Snapshot, last: StepView) -> Act | End:
    """Decide about the calls of the last step. One that was asked to finish and calls tools twice ends."""
    if _rounds(snapshot) > snapshot.limits.tool_rounds:
        return End(
            RunStatus.FAILED,
            "tool_rounds_exceeded",
            f"The agent called tools {snapshot.limits.tool_rounds} times in a row without reaching an answer, "
            "which is its limit. Ask a narrower question or raise the limit of the agent.",
        )
    asked = _finish_asked(snapshot)
    if asked is not None and sum(1 for step in snapshot.steps if step.tool_calls and step.turns_seen > asked) > 1:
        return replace(TERMINATED if snapshot.is_terminating else DEADLINE, answer=last.text)
    return Act(last.index, last.tool_calls, is_refused=_is_finishing(snapshot))


def _is_finishing(snapshot: Snapshot) -> bool:
    """Return whether the run may only answer with what it has."""
    return snapshot.is_terminating or _finish_asked(snapshot) is not None


def _finish_asked(snapshot: Snapshot) -> int | None:
    """Return the place of the user turn that asks the run to finish; None if there is none.

    A later message of the parent gives an interactive run another task.
    """
    asked = [place for place, turn in enumerate(snapshot.user_turns) if not turn.is_report]
    if snapshot.is_interactive and not snapshot.is_terminating:
        asked = asked[-1:]
    return next((place for place in asked if snapshot.user_turns[place].is_final), None)


def _after_answer(snapshot: Snapshot, last: StepView) -> NextStep:
    """Decide after a response without tool calls.

    A run does not end while its child runs work: it waits for all of them and then calls the model with their results,
    except for those that outlive it. If another run waits for it, all of them do.
    One that was asked to finish does not wait: its answer with the results so far ends it, and its child runs with it.
    """
    unseen, is_finishing = snapshot.user_turns[last.turns_seen :], _is_finishing(snapshot)
    has_to_wait = any(not child.outlives for child in snapshot.working) and not is_finishing
    if any(not message.is_report for message in unseen) or (unseen and not has_to_wait):
        return _think_or_end(snapshot, last.index + 1)
    if last.rejected_text:
        return _repair_or_end(snapshot, last)
    if has_to_wait:
        return _wait_or_leave(snapshot, last)
    if not last.text.strip() and not snapshot.reports_only:
        return _EMPTY_ANSWER
    if snapshot.is_terminating:
        return replace(TERMINATED, answer=last.text)
    if snapshot.is_interactive:
        return WaitForParent(last.text)
    return End(RunStatus.COMPLETED, "length" if last.finish_reason == "length" else "", answer=last.text)


def _waits_for_children(snapshot: Snapshot, last: StepView, execution: ExecutionView) -> bool:
    """Return whether a completed call of the wait tool lasts: child runs that it names work, or all of them.

    Any message that is no report ends it, as does the first result of those that it waits for, if it waits for any.
    """
    if execution.tool != WAIT_TOOL or execution.status is not ExecutionStatus.COMPLETED:
        return False
    unseen = snapshot.user_turns[last.turns_seen :]
    if any(not message.is_report for message in unseen):
        return False
    named = set(execution.arguments.get("workstreams", ()))
    results = [message for message in unseen if message.is_result and (not named or named & set(message.about))]
    if execution.arguments.get("until") == "any" and results:
        return False
    return any(not named or named & {child.id, child.workstream} for child in snapshot.working)


def stopped(reason: str) -> End:
    """Return the end of a run that the emergency stop interrupts."""
    return End(RunStatus.CANCELLED, "stopped", reason)


def at_limit(why: str, snapshot: Snapshot, longest_answer: int) -> End | None:
    """Return the end of a run whose model call has reached a limit; None if it was stopped for another reason."""
    match why:
        case "time_limit":
            return out_of_time(snapshot)
        case "too_long":
            return too_long(longest_answer)
        case "repeats":
            return REPEATS
        case _:
            return None


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


def _repair_or_end(snapshot: Snapshot, last: StepView) -> NextStep:
    """Let the model correct an answer that does not match its JSON Schema, up to the limit of retries."""
    attempts = sum(1 for step in snapshot.steps if step.rejected_text and step.turns_seen == last.turns_seen)
    if attempts <= snapshot.limits.output_retries:
        return _think_or_end(snapshot, last.index + 1)
    problem = structured_output.problem_of(last.rejected_text, snapshot.output_schema or {})
    return End(
        RunStatus.FAILED,
        "invalid_output",
        f"The answer did not match its JSON Schema in {attempts} attempts: {problem}. Simplify the schema, ask in "
        "other words, or choose another model.",
    )


def overflowed(overflow: ContextOverflow, budget_tokens: int) -> End:
    """Return the end of a run whose request is too long for the model even after it was shortened."""
    limit, request = overflow.limit_tokens, overflow.request_tokens
    size = f"has {request:,} tokens" if request else f"was shortened to about {budget_tokens:,} tokens"
    takes = f"the model takes {limit:,}" if limit else "the model takes less"
    return End(
        RunStatus.FAILED,
        "context_overflow",
        f"The request {size}, and {takes}, although the earlier messages were summarised or left out. Send a shorter "
        "message, unpin messages, begin a new chat, or let an operator choose a model with a larger context or give "
        "the agent fewer tools.",
    )


def _hindrance(snapshot: Snapshot) -> NextStep | None:
    """Return the end or the pause of a run that may not work on."""
    if snapshot.stopped:
        return stopped(snapshot.stopped)
    if snapshot.budget_refusal:
        return End(RunStatus.FAILED, "budget_exhausted", snapshot.budget_refusal)
    if snapshot.active_seconds >= snapshot.limits.active_seconds:
        return out_of_time(snapshot)
    if snapshot.is_paused and not snapshot.is_terminating:
        return WaitForParent()
    return None


def _think_or_end(snapshot: Snapshot, step: int) -> NextStep:
    if hindrance := _hindrance(snapshot):
        return hindrance
    may_compact = snapshot.context.turns > 0 and snapshot.compactions < MOST_COMPACTIONS
    if snapshot.compacts_only:
        return Compact("asked")
    if snapshot.voice.pending:
        return Transcribe(snapshot.voice.pending[0])
    if snapshot.voice.failure and not snapshot.steps:
        return _not_understood(snapshot.voice.failure)
    if snapshot.overflow and snapshot.overflow.is_repeated:
        return overflowed(snapshot.overflow, snapshot.limits.context_tokens)
    if snapshot.overflow and may_compact:
        return Compact("overflow")
    if not snapshot.compactions and exceeds_threshold(snapshot):
        return Compact("threshold")
    may_call_tools = _rounds(snapshot) < snapshot.limits.tool_rounds and not _is_finishing(snapshot)
    return Think(step, may_call_tools=may_call_tools)


def _not_understood(reason: str) -> End:
    """Return the end of a run whose messages have nothing but voice notes that could not be transcribed."""
    message = f"I could not understand the voice note: {reason}. Please write instead."
    return End(RunStatus.FAILED, "voice_note_not_understood", message)


def _rounds(snapshot: Snapshot) -> int:
    return sum(1 for step in snapshot.steps if step.tool_calls)
