"""The event types of agents_app, kept and live."""

from audit_app.vocabulary import declare

RUN_QUEUED = declare("run.queued", ordinal="place in the session's queue", agent_id="public agent id")
RUN_STARTED = declare("run.started", fence="the claim's number", agent_id="public agent id")
RUN_WAITING = declare(
    "run.waiting", waiting_on="retry | approval | input | children", reason="text", until="ISO time or null"
)
STEP_COMPLETED = declare("step.completed", text_length="code points of the step's text, which this closes")
_END = {"code": "stable code", "message": "why, for people", "usage": "{input_tokens, output_tokens} of the whole run"}
RUN_COMPLETED = declare(
    "run.completed", terminal=True, **{**_END, "code": "`length` when the model's limit cut it, else empty"}
)
RUN_FAILED = declare("run.failed", terminal=True, audit="RunFailed", **_END)
RUN_CANCELLED = declare("run.cancelled", terminal=True, audit="RunCancelled", **_END)
RUN_TIMED_OUT = declare("run.timed_out", terminal=True, audit="RunFailed", **_END)

# Entries of a run's live stream: {"type", "step", …}. Offsets and lengths count code points of the step's text.
TEXT_DELTA = declare("text.delta", kept=False, offset="where it begins in the step's text", text="the piece")
REASONING_DELTA = declare("reasoning.delta", kept=False, offset="where it begins", text="the piece")
MESSAGE_RESET = declare("message.reset", kept=False, reason="crash | retry | handover: forget this step's text")
SNAPSHOT = declare("snapshot", kept=False, text="the whole text of the step so far: replace what you have")
CLAIMED = declare("run.claimed", kept=False, fence="the claim's number; first entry of each claim")
