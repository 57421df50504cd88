"""A stored message in the parts of this protocol, and their older form as steps. Pure.

Its clients drop a whole page for one part that they do not know: each says its kind, and statuses are theirs.
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
from sessions_app.surfaces.threads.tool_steps import status_of
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
    """What the agent said at once, and the calls it made then. questions: what calls asked the person, by call."""

    text: str
    started_at: datetime
    ended_at: datetime
    reasoning: str = ""
    citations: tuple[Citation, ...] = ()
    executions: tuple[ExecutionView, ...] = ()
    questions: tuple[tuple[UUID, str], ...] = ()


def parts_of(run_id: UUID, steps: Sequence[StoredStep]) -> list[Part]:
    """The parts of a message in their order, with the ids that the stream of events gives them."""
    parts: list[Part] = []
    for index, step in enumerate(steps):
        times = {"start_time": iso(step.started_at), "end_time": iso(step.ended_at)}
        if step.reasoning:
            parts.append(
                {"id": part_id(run_id, index, "reasoning"), "kind": "reasoning", **times, "text": step.reasoning}
            )
        if step.text:
            cited = chunk_citations(step.citations)
            parts.append(
                {"id": part_id(run_id, index, "text"), "kind": "text", **times, "text": step.text, "citations": cited}
            )
        asked = dict(step.questions)
        for execution in step.executions:
            parts.append(_tool_part(execution))
            if execution.id in asked:
                question = {"id": part_id(run_id, index, f"question:{execution.id}"), "kind": "text", **times}
                parts.append({**question, "text": asked[execution.id], "citations": []})
    return [{**part, "seq": seq} for seq, part in enumerate(parts)]


def steps_of(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """The same in the older form, which knows thoughts and tool calls alone."""
    steps = []
    for part in parts:
        times = {"start_time": part["start_time"], "end_time": part.get("end_time")}
        if part["kind"] == "reasoning":
            told = {"name": "reasoning", "kind": "reasoning", "detail": part["text"]}
        elif part["kind"] == "tool":
            error = part["extras"].get("error")
            detail = error or (part["result"] if isinstance(part["result"], str) else _json(part["result"]))
            told = {"name": part["tool_name"], "kind": "tool_call", "args": part["input"], "detail": detail}
        else:
            continue
        steps.append({"id": part["id"], **told, **times})
    return steps


def text_of(parts: Sequence[Part]) -> str:
    """Everything the message says, as one text."""
    return "\n\n".join(text for part in parts if part["kind"] == "text" and (text := part["text"].strip()))


def _tool_part(execution: ExecutionView) -> Part:
    status = status_of(execution.status)
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
        "status": status,
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


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)
