"""A stored message as the parts of this protocol, and as the steps of its older version. Pure.

The protocol's clients fail to read a whole page if one part has an unknown kind or status.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sessions_app.conversation.citations import Citation
from sessions_app.surfaces.base.timestamps import iso
from sessions_app.surfaces.threads.citation_parts import chunk_citations
from sessions_app.surfaces.threads.foreign_ids import part_id
from tools_app.types import ExecutionStatus, ExecutionView, without_receipt

_DISPLAY = {
    "http_request": "api_response",
    "memory_recall": "search_results",
    "python": "command_output",
    "read_artifact": "file_content",
    "web_fetch": "file_content",
    "write_artifact": "document_created",
}

Part = dict[str, Any]


@dataclass(frozen=True)
class StoredStep:
    """A text of the agent and the calls after it. questions: (execution id, question to the user) pairs."""

    text: str
    started_at: datetime
    ended_at: datetime
    reasoning: str = ""
    citations: tuple[Citation, ...] = ()
    executions: tuple[ExecutionView, ...] = ()
    questions: tuple[tuple[UUID, str], ...] = ()


def parts_of(run_id: UUID, steps: Sequence[StoredStep]) -> list[Part]:
    """Return the parts of a message in order, with the ids that they have in the event stream."""
    parts: list[Part] = []
    for index, step in enumerate(steps):
        if step.reasoning:
            parts.append(_text_part(step, part_id(run_id, index, "reasoning"), "reasoning", step.reasoning))
        if step.text:
            text = _text_part(step, part_id(run_id, index, "text"), "text", step.text)
            parts.append({**text, "citations": chunk_citations(step.citations)})
        questions = dict(step.questions)
        for execution in step.executions:
            parts.append(_tool_part(execution))
            if execution.id in questions:
                question_id = part_id(run_id, index, f"question:{execution.id}")
                parts.append({**_text_part(step, question_id, "text", questions[execution.id]), "citations": []})
    return [{**part, "seq": seq} for seq, part in enumerate(parts)]


def steps_of(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """Return the same as steps of the older version, which has reasoning and tool calls only."""
    steps = []
    for part in parts:
        times = {"start_time": part["start_time"], "end_time": part.get("end_time")}
        if part["kind"] == "reasoning":
            fields = {"name": "reasoning", "kind": "reasoning", "detail": part["text"]}
        elif part["kind"] == "tool":
            detail = part["extras"].get("error") or part["result"]
            if not (detail is None or isinstance(detail, str)):
                detail = json.dumps(detail, ensure_ascii=False)
            fields = {"name": part["tool_name"], "kind": "tool_call", "args": part["input"], "detail": detail}
        else:
            continue
        steps.append({"id": part["id"], **fields, **times})
    return steps


def text_of(parts: Sequence[Part]) -> str:
    """Return the texts of a message as one."""
    return "\n\n".join(text for part in parts if part["kind"] == "text" and (text := part["text"].strip()))


def status_of(status: str) -> str:
    """Return the protocol's status for that of an execution."""
    if status == ExecutionStatus.COMPLETED:
        return "success"
    if status == ExecutionStatus.CANCELLED:
        return "canceled"
    return "running" if status in (ExecutionStatus.PENDING, ExecutionStatus.RUNNING) else "error"


def _text_part(step: StoredStep, part: str, kind: str, text: str) -> Part:
    times = {"start_time": iso(step.started_at), "end_time": iso(step.ended_at)}
    return {"id": part, "kind": kind, **times, "text": text}


def _tool_part(execution: ExecutionView) -> Part:
    failed = execution.status.is_terminal and execution.status is not ExecutionStatus.COMPLETED
    seconds = execution.duration_seconds
    extras: dict[str, Any] = {"status": execution.status.value}
    if failed:
        extras["error"] = without_receipt(execution.text_for_model)
    if execution.receipt:
        extras["receipt"] = execution.receipt
    return {
        "id": str(execution.id),
        "kind": "tool",
        "tool_call_id": execution.call_id,
        "tool_name": execution.tool,
        "input": execution.arguments,
        "status": status_of(execution.status),
        "result": _value(execution.output),
        "is_error": failed,
        "duration_ms": None if seconds is None else round(seconds * 1000),
        "extras": extras,
        "display_type": _DISPLAY.get(execution.tool, "generic"),
        "start_time": iso(execution.started_at or execution.created_at),
        "end_time": iso(execution.completed_at),
    }


def _value(output: str | None) -> Any:
    try:
        return None if output is None else json.loads(output)
    except ValueError:
        return output
