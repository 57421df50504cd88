"""The event types of tools_app."""

from typing import Annotated, Any, TypedDict

from audit_app.event_types import declare


class ExecutionPayload(TypedDict):
    execution_id: Annotated[str, "the execution"]
    call_id: Annotated[str, "the model's id of the call"]
    tool: Annotated[str, "name"]


class ToolRequested(ExecutionPayload):
    call_index: Annotated[int, "place in the step"]
    arguments: Annotated[Any, "as the model gave them, masked"]
    risk: Annotated[str, "low | medium | high"]
    decision: Annotated[str, "decision of the policy, and why"]
    text_length: Annotated[int, "code points of the step's text, which this closes"]


class ToolCompleted(ExecutionPayload):
    status: Annotated[str, "Completed"]
    output: Annotated[str, "JSON text, trimmed to 4,000 characters"]
    duration_ms: Annotated[int | None, "whole milliseconds or null"]
    origins: Annotated[list[str], "what the output brings into the run from outside"]


class ToolFailed(ExecutionPayload):
    status: Annotated[str, "Failed | TimedOut | Cancelled | Unknown"]
    error: Annotated[str, "text"]
    duration_ms: Annotated[int | None, "whole milliseconds or null"]


class ApprovalRequested(ExecutionPayload):
    approval_id: Annotated[str, "the request"]
    arguments: Annotated[Any, "as the model gave them, masked"]
    risk: Annotated[str, "low | medium | high"]
    reason: Annotated[str, "why the policy requires approval"]
    expires_at: Annotated[str, "ISO time"]
    choices: Annotated[list[str], "decisions that may be made"]
    run_pattern: Annotated[str, "what allow_run allows"]
    pattern: Annotated[str, "what allow_always allows"]
    origins: Annotated[list[str], "what the run has read from outside, such as page:example.org"]
    asked_by: Annotated[str, "the workstream that asks, with those above it, by their names for people, or empty"]


class ApprovalDecided(ExecutionPayload):
    approval_id: Annotated[str, "the request"]
    status: Annotated[str, "approved | denied | expired | cancelled"]
    decision: Annotated[str, "allow_once | allow_run | allow_always | deny, or empty"]
    decided_by: Annotated[str, "actor, or `system`"]
    note: Annotated[str, "note of the user who decided"]


class InputRequested(ExecutionPayload):
    request_id: Annotated[str, "the question"]
    question: Annotated[str, "text of all questions"]
    options: Annotated[list[str], "answers to choose from: texts; empty for a form of several questions"]
    questions: Annotated[
        list[dict[str, Any]],
        "[{text, options: [{id, label, description}], allows_text, allows_several, placeholder, variant}], 1 to 8",
    ]
    allows_text: Annotated[bool, "whether free text is accepted as an answer"]
    expires_at: Annotated[str, "ISO time"]
    asked_by: Annotated[str, "the workstream that asks, with those above it, by their names for people, or empty"]


class CallsReturned(TypedDict):
    execution_ids: Annotated[list[str], "the executions, in the order of the calls"]
    expires_at: Annotated[str, "ISO time until which the client may send the outputs"]


class InjectionWarning(TypedDict):
    kind: Annotated[str, "prompt_injection"]
    action: Annotated[str, "warn | block | escalate"]
    score: Annotated[int, "confidence of the guard, 1..100"]
    rules: Annotated[list[str], "names of the rules that matched"]
    excerpt: Annotated[str, "the text that matched, at most 200 characters"]


class WarningRaised(ExecutionPayload, InjectionWarning):
    pass


class PlanUpdated(ExecutionPayload):
    tasks: Annotated[
        list[dict[str, Any]],
        "[{id, goal, status: pending | in_progress | completed | skipped, instructions?, comment?}], the whole plan",
    ]
    comment: Annotated[str, "why it changed, or empty"]


class ProgressReported(ExecutionPayload):
    text: Annotated[str, "what the run is doing"]
    percent: Annotated[int | None, "0..100 or null"]
    phase: Annotated[str, "name of the part of the work, or empty"]


class BatchProgress(TypedDict):
    batch_id: Annotated[str, "the execution of the batch"]
    tool: Annotated[str, "name of the tool that is called for each item"]
    total: Annotated[int, "number of items"]
    done: Annotated[int, "number of items that have ended"]
    failed: Annotated[int, "number of items that have ended without a result"]
    items: Annotated[
        list[dict[str, Any]],
        "[{id, execution_id, status: pending | running | success | error, message?, duration_ms?}], all of them",
    ]
    started_at: Annotated[int, "milliseconds since 1970"]
    completed_at: Annotated[int | None, "milliseconds since 1970, or null"]


class ToolStarted(TypedDict):
    execution_id: Annotated[str, "the execution"]
    tool: Annotated[str, "name"]


class ToolProgress(TypedDict):
    execution_id: Annotated[str, "the execution"]
    text: Annotated[str, "message of the tool"]
    fraction: Annotated[float | None, "0..1 or null"]


TOOL_REQUESTED = declare("tool.requested", ToolRequested, closes_step=True, audit="ToolCallRequested")
TOOL_COMPLETED = declare("tool.completed", ToolCompleted, audit="ToolExecutionCompleted")
TOOL_FAILED = declare("tool.failed", ToolFailed, audit="ToolExecutionFailed")
APPROVAL_REQUESTED = declare("approval.requested", ApprovalRequested, audit="ApprovalRequested")
APPROVAL_DECIDED = declare("approval.decided", ApprovalDecided, audit="ApprovalDecided")
INPUT_REQUESTED = declare("input.requested", InputRequested, audit="InputRequested")
CALLS_RETURNED = declare("calls.returned", CallsReturned)
WARNING_RAISED = declare(
    "warning.raised", WarningRaised, audit="PromptInjectionDetected", audited_kind="prompt_injection"
)
PLAN_UPDATED = declare("plan.updated", PlanUpdated)
PROGRESS_REPORTED = declare("progress.reported", ProgressReported)
BATCH_PROGRESS = declare("batch.progress", BatchProgress)
TOOL_STARTED = declare("tool.started", ToolStarted, kept=False, audit="ToolExecutionStarted")
TOOL_PROGRESS = declare("tool.progress", ToolProgress, kept=False)
