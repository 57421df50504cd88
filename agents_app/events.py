"""The event types of agents_app, kept and live."""

from typing import Annotated, TypedDict

from audit_app.event_types import declare, event_types


class RunQueued(TypedDict):
    ordinal: Annotated[int, "place in the session's queue"]
    agent_id: Annotated[str, "public agent id"]


class RunStarted(TypedDict):
    fence: Annotated[int, "number of the claim"]
    agent_id: Annotated[str, "public agent id"]


class RunWaiting(TypedDict):
    waiting_on: Annotated[str, "retry | approval | input | children"]
    reason: Annotated[str, "text"]
    until: Annotated[str | None, "ISO time or null"]


class StepCompleted(TypedDict):
    text_length: Annotated[int, "code points of the step's text, which this closes"]


class RunUsage(TypedDict):
    input_tokens: int
    output_tokens: int


class RunEnded(TypedDict):
    code: Annotated[str, "stable code; of a completed run `length` when the model's limit cut its answer, else empty"]
    message: Annotated[str, "why, for people"]
    usage: Annotated[RunUsage, "{input_tokens, output_tokens} of the whole run"]


RUN_QUEUED = declare("run.queued", RunQueued)
RUN_STARTED = declare("run.started", RunStarted)
RUN_WAITING = declare("run.waiting", RunWaiting)
STEP_COMPLETED = declare("step.completed", StepCompleted, closes_step=True)
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
