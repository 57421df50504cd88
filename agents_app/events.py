"""The event types of agents_app, kept and live."""

from typing import Annotated, NotRequired, TypedDict

from audit_app.event_types import declare, event_types


class RunQueued(TypedDict):
    ordinal: Annotated[int, "place in the session's queue"]
    agent_id: Annotated[str, "public agent id"]


class RunStarted(TypedDict):
    fence: Annotated[int, "number of the claim"]
    agent_id: Annotated[str, "public agent id"]


class RunWaiting(TypedDict):
    waiting_on: Annotated[str, "retry | approval | input | children | parent | budget | place"]
    reason: Annotated[str, "text"]
    until: Annotated[str | None, "ISO time or null"]


# Its keys are keywords of Python.
ModelFallback = TypedDict(
    "ModelFallback",
    {
        "from": Annotated[str, "provider/model that could not answer"],
        "to": Annotated[str, "provider/model that is called instead, for the rest of the run"],
        "code": Annotated[str, "stable code of the error"],
        "reason": Annotated[str, "the error, for people"],
    },
)


class StepCompleted(TypedDict):
    text_length: Annotated[int, "code points of the step's text, which this closes"]


class TokenSums(TypedDict):
    input_tokens: int
    output_tokens: int


class RunUsage(TokenSums):
    with_workstreams: NotRequired[TokenSums]


class RunEnded(TypedDict):
    code: Annotated[str, "stable code; of a completed run `length` when the model's limit cut its answer, else empty"]
    message: Annotated[str, "why, for people"]
    usage: Annotated[RunUsage, "{input_tokens, output_tokens} of the run; with_workstreams: also of all runs below it"]


class SessionCompacted(TypedDict):
    reason: Annotated[str, "threshold (the next request was too long) | overflow (the model's server said so) | asked"]
    turns: Annotated[int, "number of earlier messages that the summary replaces in requests"]
    tokens_before: Annotated[int, "estimate of the request's tokens without the summary"]
    tokens_after: Annotated[int, "the same with the summary"]


class CompactionFailed(TypedDict):
    reason: Annotated[str, "threshold | overflow | asked"]
    message: Annotated[str, "why there is no summary, for people; the oldest messages are left out instead"]


class WorkstreamLaunched(TypedDict):
    run_id: Annotated[str, "id of the child run"]
    parent_run_id: Annotated[str, "id of the run that launched it"]
    workstream_id: Annotated[str, "name that the parent chose"]
    launch_id: Annotated[str, "the child run's id, by which tools name it"]
    agent_id: Annotated[str, "public agent id"]
    name: Annotated[str, "name for people"]
    interactive: Annotated[bool, "it waits for messages after its task"]
    deadline_seconds: Annotated[int, "time for its task"]


class WorkstreamProgressed(TypedDict):
    run_id: Annotated[str, "id of the child run"]
    parent_run_id: Annotated[str, "id of the run that launched it"]
    workstream_id: Annotated[str, "name that the parent chose"]
    launch_id: Annotated[str, "the child run's id"]
    name: Annotated[str, "name for people"]
    status: Annotated[str, "running | canceling"]
    phase: Annotated[str, "planning | executing_tool | synthesizing | blocked | done"]
    tool: Annotated[str, "tool that it executes, or empty"]
    iteration: Annotated[int | None, "number of its model calls; null if unknown"]
    percent: Annotated[int | None, "part of its deadline that has passed; null while the deadline stands still"]
    text: Annotated[str, "what it does, or its last result, for people"]


class WorkstreamSteered(TypedDict):
    run_id: Annotated[str, "id of the child run"]
    parent_run_id: Annotated[str, "id of the run that launched it"]
    workstream_id: Annotated[str, "name that the parent chose"]
    launch_id: Annotated[str, "the child run's id"]
    name: Annotated[str, "name for people"]
    command: Annotated[str, "message, or the command: add_instruction, pause_requested and so on"]
    text: Annotated[str, "the text, or empty"]
    message_id: Annotated[str, "the sender's own id of it, or empty"]


class WorkstreamEnded(TypedDict):
    run_id: Annotated[str, "id of the child run"]
    parent_run_id: Annotated[str, "id of the run that launched it"]
    workstream_id: Annotated[str, "name that the parent chose"]
    launch_id: Annotated[str, "the child run's id"]
    agent_id: Annotated[str, "public agent id"]
    name: Annotated[str, "name for people"]
    status: Annotated[str, "completed | failed | timeout | canceled"]
    summary: Annotated[str, "beginning of its result, or why it has none"]


RUN_QUEUED = declare("run.queued", RunQueued)
RUN_STARTED = declare("run.started", RunStarted)
RUN_WAITING = declare("run.waiting", RunWaiting)
MODEL_FALLBACK = declare("model.fallback", ModelFallback, audit="ModelFallback")
STEP_COMPLETED = declare("step.completed", StepCompleted, closes_step=True)
SESSION_COMPACTED = declare("session.compacted", SessionCompacted)
COMPACTION_FAILED = declare("session.compaction_failed", CompactionFailed)
WORKSTREAM_LAUNCHED = declare("workstream.launched", WorkstreamLaunched, audit="WorkstreamLaunched")
WORKSTREAM_PROGRESSED = declare("workstream.progressed", WorkstreamProgressed)
WORKSTREAM_STEERED = declare("workstream.steered", WorkstreamSteered, audit="WorkstreamSteered")
WORKSTREAM_ENDED = declare("workstream.ended", WorkstreamEnded, audit="WorkstreamEnded")
# Names of the events of a child run that every viewer of its session gets.
WORKSTREAM_EVENTS = (
    WORKSTREAM_LAUNCHED.name,
    WORKSTREAM_PROGRESSED.name,
    WORKSTREAM_STEERED.name,
    WORKSTREAM_ENDED.name,
)
RUN_COMPLETED = declare("run.completed", RunEnded, terminal=True)
RUN_FAILED = declare("run.failed", RunEnded, terminal=True, audit="RunFailed")
RUN_CANCELLED = declare("run.cancelled", RunEnded, terminal=True, audit="RunCancelled")
RUN_TIMED_OUT = declare("run.timed_out", RunEnded, terminal=True, audit="RunFailed")

# Names of the events that end a run. Only this app declares such events.
RUN_ENDS = frozenset(event_type.name for event_type in event_types if event_type.terminal)


# Entries of a run's live stream: {"type", "step", …}. Offsets and lengths count code points of the step's text.


class TextPiece(TypedDict):
    offset: Annotated[int, "where the piece begins in the step's text or reasoning"]
    text: Annotated[str, "the piece"]


class MessageReset(TypedDict):
    reason: Annotated[str, "retry | resumed: discard this step's text"]


class Snapshot(TypedDict):
    text: Annotated[str, "the whole text of the step so far: replace what you have"]


class RunClaimed(TypedDict):
    fence: Annotated[int, "number of the claim; first entry of each claim"]


TEXT_DELTA = declare("text.delta", TextPiece, kept=False)
REASONING_DELTA = declare("reasoning.delta", TextPiece, kept=False)
MESSAGE_RESET = declare("message.reset", MessageReset, kept=False)
SNAPSHOT = declare("snapshot", Snapshot, kept=False)
CLAIMED = declare("run.claimed", RunClaimed, kept=False)
