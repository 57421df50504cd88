"""Events of tools, plans, batches and workstreams that each become one message. Pure."""

import json
from collections.abc import Callable
from typing import Any

from audit_app.kernel.shorten import one_line
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.agent_messages import message_types
from sessions_app.surfaces.agent_messages.streaming_chunks import activity_of
from sessions_app.surfaces.agent_messages.wire_format import Compact
from tools_app import events as tools

# Events whose producers are not there yet, by name: what they are shown as is settled.
LAUNCHED, ENDED, PLANNED = "workstream.launched", "workstream.ended", "plan.updated"
BATCH, CITED = "batch.progress", "citations.added"
_LONGEST_LINE = 160


def started(fact: SessionEvent) -> Compact:
    payload = fact.payload
    line = json.dumps(payload["arguments"], ensure_ascii=False) if payload.get("arguments") else ""
    text = f"Using {payload['tool']}" + (f": {one_line(line, _LONGEST_LINE)}" if line else "")
    return _tool("started", fact, text, input=payload.get("arguments"))


def progress(fact: SessionEvent, requested: SessionEvent) -> Compact:
    """Of a call that is under way. Not stored. requested: the event with which the call began."""
    text = str(fact.payload.get("text") or "Working")
    return _tool("progress", requested, text, percent=_percent(fact.payload.get("fraction")))


def _completed(fact: SessionEvent) -> Compact:
    payload = fact.payload
    files = _written(payload["tool"], payload.get("output"))
    return _tool(
        "completed",
        fact,
        f"{payload['tool']} is done",
        output=payload.get("output"),
        duration_ms=payload.get("duration_ms"),
        outputFiles=files or None,
    )


def _failed(fact: SessionEvent) -> Compact:
    payload = fact.payload
    text = f"{payload['tool']}: {one_line(payload.get('error') or payload.get('status') or 'failed', _LONGEST_LINE)}"
    return _tool(
        "failed",
        fact,
        text,
        error=payload.get("error"),
        status=payload.get("status"),
        duration_ms=payload.get("duration_ms"),
    )


def _tool(event: str, fact: SessionEvent, text: str, **more: Any) -> Compact:
    payload = fact.payload
    return message_types.tool(
        event,
        payload.get("tool", ""),
        text,
        execution_id=payload["execution_id"],
        call_id=payload.get("call_id") or payload["execution_id"],
        group=activity_of(fact.run_id, fact.step),
        step=fact.step or 0,
        **more,
    )


def _warned(fact: SessionEvent) -> Compact:
    payload = fact.payload
    text = f"What {payload.get('tool', 'a tool')} returned looks like orders to the agent."
    return message_types.warning(text, **{key: payload[key] for key in ("kind", "tool", "action") if key in payload})


def _planned(fact: SessionEvent) -> Compact:
    return message_types.plan(fact.payload.get("tasks", []), fact.payload.get("comment", ""))


def _batch(fact: SessionEvent) -> Compact:
    payload = fact.payload
    return message_types.batch_progress(
        payload["batch_id"], payload.get("tool", ""), payload.get("items", []), payload.get("started_at", 0)
    )


def _launched(fact: SessionEvent) -> Compact:
    return _workstream("launched", fact, f"Started {fact.payload['workstream_id']}", "running")


def _ended(fact: SessionEvent) -> Compact:
    status = str(fact.payload.get("status", "completed"))
    return _workstream("completed", fact, fact.payload.get("summary") or f"Ended: {status}", status)


def _workstream(event: str, fact: SessionEvent, text: str, status: str) -> Compact:
    payload, child = fact.payload, fact.payload.get("run_id")
    return message_types.workstream(
        event,
        text,
        payload["workstream_id"],
        payload.get("launch_id", payload["workstream_id"]),
        status=status,
        kind="agent",
        interaction=payload.get("agent_id"),
        child_workflow_run_id=child,
        child_workflow_id=f"agent-{child}" if child else None,
    )


def _cited(fact: SessionEvent) -> Compact:
    sources = list(fact.payload.get("citations") or fact.payload.get("sources") or ())
    return message_types.update(f"{len(sources)} sources", "citations", citations=sources)


PLAIN: dict[str, Callable[[SessionEvent], Compact]] = {
    tools.TOOL_COMPLETED.name: _completed,
    tools.TOOL_FAILED.name: _failed,
    tools.WARNING_RAISED.name: _warned,
    PLANNED: _planned,
    BATCH: _batch,
    LAUNCHED: _launched,
    ENDED: _ended,
    CITED: _cited,
}


def _written(tool_name: str, output: Any) -> list[str]:
    """The file that a call wrote."""
    if tool_name != "write_artifact" or not isinstance(output, str):
        return []
    try:
        value = json.loads(output)
    except ValueError:
        return []
    path = value.get("path") if isinstance(value, dict) else None
    return [path] if isinstance(path, str) else []


def _percent(fraction: Any) -> int | None:
    return round(fraction * 100) if isinstance(fraction, int | float) else None
