"""A run as a `response` object of the API reference, with its messages and tool calls as output items. Pure.

The agent's tools run on our side, so such a call is an `mcp_call` item: clients display it and do not try to run it. A
call of a client's tool is a `function_call`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from agents_app.types import RunOptions, RunStatus, RunTranscript, Usage
from audit_app.kernel.json_text import as_json
from audit_app.kernel.redact import masked_arguments
from sessions_app.surfaces.base.function_tools import call_id_of
from sessions_app.surfaces.openai.annotations import CitedByStep, annotations_of
from sessions_app.surfaces.openai.client_tools import choice_as_sent, part_from, tools_as_sent
from sessions_app.surfaces.openai.requests import LABELS, NAME
from tools_app.types import ApprovalView, ExecutionStatus, ExecutionView

_STATUS = {status: status.value for status in RunStatus}
_STATUS |= {RunStatus.RUNNING: "in_progress", RunStatus.WAITING: "in_progress", RunStatus.TIMED_OUT: "failed"}
SERVER_LABEL = "komand"
# Settings that requests may name and that are not passed to the model: the values that apply.
_NOT_SET_HERE = {
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "service_tier": "default",
}
NOTHING: CitedByStep = MappingProxyType({})


@dataclass(frozen=True)
class ResponseContext:
    """Request fields that the response echoes.

    created: seconds since 1970.
    first_step: the step of the run with which the response begins.
    """

    run_id: UUID
    model: str
    created: int
    options: RunOptions
    first_step: int = 0

    @property
    def response_id(self) -> str:
        return f"resp_{answer_id(self.run_id, self.first_step)}"

    @property
    def note(self) -> dict[str, Any]:
        note: dict[str, Any] = (self.options.note or {}).get(NAME, {})
        return note


def answer_id(run_id: UUID, first_step: int) -> str:
    """Return the id of an answer of a run: the id of the run, then the first step unless it is 0."""
    return f"{run_id.hex}{first_step or ''}"


def response(context: ResponseContext, status: str, output: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """Return a response object. changes: fields that differ from those of a run that has not ended."""
    note, options = context.note, context.options
    text_format: dict[str, Any] = {"type": "text"}
    if options.output_schema is not None:
        text_format = {"type": "json_schema", "name": "answer", "schema": options.output_schema, "strict": False}
    return {
        "id": context.response_id,
        "object": "response",
        "created_at": context.created,
        "status": status,
        "background": bool(note.get("background")),
        **dict.fromkeys(("completed_at", "error", "incomplete_details", "max_tool_calls", "usage")),
        "conversation": {"id": note["conversation"]} if note.get("conversation") else None,
        "instructions": options.instructions or None,
        "max_output_tokens": options.max_output_tokens,
        "metadata": note.get("metadata") or {},
        "model": context.model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": note.get("previous") or None,
        "reasoning": {"effort": None, "summary": None},
        "store": note.get("store", True),
        "temperature": 1.0 if options.temperature is None else options.temperature,
        "text": {"format": text_format},
        "tool_choice": choice_as_sent(options.tool_choice),
        "tools": tools_as_sent(options.client_tools),
        "truncation": "disabled",
        **_NOT_SET_HERE,
        **{name: note.get(name) for name in LABELS},
        **changes,
    }


class AskedApproval(NamedTuple):
    """An approval that a workstream waits for. asker: the workstream, see `name_of_asker`."""

    approval: ApprovalView
    asker: str


class AskedQuestion(NamedTuple):
    """A question that the run, or one of its workstreams, waits for. text: as the user reads it."""

    id: UUID
    text: str


def of_transcript(
    context: ResponseContext,
    transcript: RunTranscript,
    cited: CitedByStep = NOTHING,
    asked: Iterable[AskedApproval] = (),
    question: AskedQuestion | None = None,
) -> dict[str, Any]:
    """Return the response as it is stored; while the run is active, with the steps recorded so far.

    A response ends with the calls that its client has to make, or with the question that its user has to answer.
    asked: approvals that its workstreams wait for.
    """
    run, part = transcript.run, part_from(transcript, context.first_step)
    if part.calls or question:
        output = [*output_of(part.transcript, cited), *([question_item(question)] if question else [])]
        return response(context, "completed", output, usage=usage_of(part.usage))
    status = _STATUS[run.status]
    changes: dict[str, Any] = {}
    if run.status is RunStatus.COMPLETED and run.error_code:
        status = "incomplete"
        changes["incomplete_details"] = {"reason": "max_output_tokens"}
    if status == "failed":
        changes["error"] = {"code": "server_error", "message": run.error_message or "The run failed."}
    if run.status.is_terminal:
        team = transcript.with_workstreams
        changes["usage"] = usage_of(part.usage) | ({"with_workstreams": usage_of(team.usage)} if team else {})
    if run.status is RunStatus.COMPLETED and run.ended_at:
        changes["completed_at"] = int(run.ended_at.timestamp())
    waits = [approval_item(str(one.id), one.tool, masked_arguments(one.arguments), asker) for one, asker in asked]
    return response(context, status, [*output_of(part.transcript, cited), *waits], **changes)


def output_of(transcript: RunTranscript, cited: CitedByStep = NOTHING) -> list[dict[str, Any]]:
    """Return the output items: each step's text as a message, then its tool calls; last the answer.

    Of an answer with a JSON Schema, no other text: SDKs join the texts of all messages.
    """
    run, items = transcript.run, []
    for step in transcript.steps:
        is_shown = not transcript.is_structured or (step.index == transcript.answering_step and transcript.answer)
        if step.text and is_shown:
            items.append(message(run.id, step.index, step.text, cited=cited))
        items += [tool_call(execution) for execution in transcript.executions if execution.step == step.index]
    # A run that was stopped within a step keeps the text of that step, which is not recorded as one.
    is_open = transcript.answering_step == len(transcript.steps)
    if run.status.is_terminal and transcript.answer and is_open:
        items.append(message(run.id, len(transcript.steps), transcript.answer, status="incomplete", cited=cited))
    return items


def message(
    run_id: UUID, step: int, text: str, *, status: str = "completed", cited: CitedByStep = NOTHING
) -> dict[str, Any]:
    content = [text_part(text, annotations_of(cited.get(step, ())))]
    return {**message_item(run_id, step, status), "content": content}


def message_item(run_id: UUID, step: int, status: str) -> dict[str, Any]:
    """Return the message item of a step, without content."""
    item_id = message_id(run_id, step)
    return {"id": item_id, "type": "message", "status": status, "role": "assistant", "content": []}


def question_item(question: AskedQuestion) -> dict[str, Any]:
    """Return the message item of a question."""
    content = [text_part(question.text, [])]
    item_id = f"msg_{question.id.hex}"
    return {"id": item_id, "type": "message", "status": "completed", "role": "assistant", "content": content}


def text_part(text: str, annotations: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}


def message_id(run_id: UUID, step: int) -> str:
    return f"msg_{run_id.hex}{step:02d}"


def tool_call(execution: ExecutionView) -> dict[str, Any]:
    """Return an execution as an `mcp_call` item; `output` and `error` are null until it has ended.

    That of a client's tool is a `function_call`, whose output the client has.
    """
    if execution.client_until:
        return function_call(execution)
    failed = execution.status.is_terminal and execution.status is not ExecutionStatus.COMPLETED
    error = execution.text_for_model if failed else None
    return call_item(str(execution.id), execution.tool, execution.arguments, output=execution.output, error=error)


def function_call(execution: ExecutionView, status: str = "completed") -> dict[str, Any]:
    return {
        "id": f"fc_{execution.id.hex}",
        "type": "function_call",
        "call_id": call_id_of(execution.id),
        "name": execution.tool,
        "arguments": as_json(execution.arguments),
        "status": status,
    }


def call_item(
    execution_id: str, tool: str, arguments: Any, *, output: str | None = None, error: str | None = None
) -> dict[str, Any]:
    status = "failed" if error else "completed" if output is not None else "in_progress"
    return {
        "id": f"mcp_{UUID(execution_id).hex}",
        "type": "mcp_call",
        "server_label": SERVER_LABEL,
        "name": tool,
        "arguments": as_json(arguments),
        "output": output,
        "error": call_error(error),
        "approval_request_id": None,
        "status": status,
    }


def approval_item(approval_id: str, tool: str, arguments: Any, asker: str) -> dict[str, Any]:
    """Return the item of an approval that a workstream asks for.

    asker: the workstream with those above it, by their names for people; the server label has it.
    """
    return {
        "id": f"mcpr_{UUID(approval_id).hex}",
        "type": "mcp_approval_request",
        "server_label": f"{SERVER_LABEL}/{asker}",
        "name": tool,
        "arguments": as_json(arguments),
    }


def call_error(text: str | None) -> dict[str, Any] | None:
    """Return the error of an `mcp_call`: the content of the failed result, as MCP has it."""
    if text is None:
        return None
    return {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": text}]}


def user_item(turn_id: UUID, text: str) -> dict[str, Any]:
    """Return a message of the user as an item."""
    content = [{"type": "input_text", "text": text}]
    return {"id": f"msg_{turn_id.hex}", "type": "message", "status": "completed", "role": "user", "content": content}


def usage_of(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_input_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
