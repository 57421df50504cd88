"""The event types of tools_app."""

from audit_app.event_types import declare

TOOL_REQUESTED = declare(
    "tool.requested",
    audit="ToolExecutionStarted",
    execution_id="the execution",
    call_id="the model's id of the call",
    call_index="place in the step",
    tool="name",
    arguments="as asked, masked",
    risk="low | medium | high",
    decision="what the policy said, and why",
    text_length="code points of the step's text, which this closes",
)
TOOL_COMPLETED = declare(
    "tool.completed",
    audit="ToolExecutionCompleted",
    execution_id="the execution",
    call_id="the model's id",
    tool="name",
    status="Completed",
    output="JSON text, trimmed to 4,000 characters",
    duration_ms="whole milliseconds",
)
TOOL_FAILED = declare(
    "tool.failed",
    audit="ToolExecutionFailed",
    execution_id="the execution",
    call_id="the model's id",
    tool="name",
    status="Failed | TimedOut | Cancelled | Unknown",
    error="text",
    duration_ms="whole milliseconds or null",
)
APPROVAL_REQUESTED = declare(
    "approval.requested",
    audit="ApprovalRequested",
    approval_id="the request",
    execution_id="the execution",
    tool="name",
    arguments="as asked, masked",
    risk="low | medium | high",
    reason="why the policy asks",
    expires_at="ISO time",
    choices="decisions that may be made",
    run_pattern="what allow_run allows",
    pattern="what allow_always allows",
)
APPROVAL_DECIDED = declare(
    "approval.decided",
    audit="ApprovalDecided",
    approval_id="the request",
    execution_id="the execution",
    tool="name",
    status="approved | denied | expired | cancelled",
    decision="allow_once | allow_run | allow_always | deny, or empty",
    decided_by="actor, or `system`",
    note="what the person added",
)
INPUT_REQUESTED = declare(
    "input.requested",
    audit="InputRequested",
    request_id="the question",
    execution_id="the execution",
    tool="name",
    question="text",
    options="answers to choose from: texts",
    allows_text="whether an answer in own words counts",
    expires_at="ISO time",
)
WARNING_RAISED = declare(
    "warning.raised",
    audit="PromptInjectionDetected",
    audited_kind="prompt_injection",
    kind="prompt_injection",
    execution_id="the execution",
    tool="name",
    action="warn | block | escalate",
    score="how sure the guard is, 1..100",
    rules="names of what it found",
    excerpt="where, at most 200 characters",
)
TOOL_STARTED = declare("tool.started", kept=False, execution_id="the execution", tool="name")
TOOL_PROGRESS = declare(
    "tool.progress", kept=False, execution_id="the execution", text="what it says", fraction="0..1 or null"
)
