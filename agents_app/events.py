"""The event types of agents_app, kept and live."""

from audit_app.event_types import EventType, declare

RUN_QUEUED = declare("run.queued", ordinal="place in the session's queue", agent_id="public agent id")
RUN_STARTED = declare("run.started", fence="the claim's number", agent_id="public agent id")
RUN_WAITING = declare(
    "run.waiting", waiting_on="retry | approval | input | children", reason="text", until="ISO time or null"
)
STEP_COMPLETED = declare("step.completed", text_length="code points of the step's text, which this closes")


def _end(name: str, *, audit: str | None = None, code: str = "stable code") -> EventType:
    usage = "{input_tokens, output_tokens} of the whole run"
    return declare(name, terminal=True, audit=audit, code=code, message="why, for people", usage=usage)


RUN_COMPLETED = _end("run.completed", code="`length` when the model's limit cut it, else empty")
RUN_FAILED = _end("run.failed", audit="RunFailed")
RUN_CANCELLED = _end("run.cancelled", audit="RunCancelled")
RUN_TIMED_OUT = _end("run.timed_out", audit="RunFailed")

# Entries of a run's live stream: {"type", "step", …}. Offsets and lengths count code points of the step's text.
TEXT_DELTA = declare("text.delta", kept=False, offset="where it begins in the step's text", text="the piece")
REASONING_DELTA = declare("reasoning.delta", kept=False, offset="where it begins", text="the piece")
MESSAGE_RESET = declare("message.reset", kept=False, reason="retry | resumed: forget this step's text")
SNAPSHOT = declare("snapshot", kept=False, text="the whole text of the step so far: replace what you have")
CLAIMED = declare("run.claimed", kept=False, fence="the claim's number; first entry of each claim")
