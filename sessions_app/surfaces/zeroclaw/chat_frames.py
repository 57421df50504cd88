"""The events of a session as frames of the chat. Pure: no database, no clock."""

import json
from collections.abc import Collection
from datetime import datetime
from typing import Any

from agents_app import events as runs
from audit_app.kernel.shorten import shorten
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.base.append_only_text import AppendedTexts
from tools_app import events as tools
from tools_app.types import Decision

Frame = dict[str, Any]

_SUMMARY_CHARACTERS = 500
# Statuses of the tasks of a plan, as the protocol has them.
_PLAN = {"skipped": "completed"}


class ChatFrames:
    """The frames that one connection is sent. decisions: those that its caller may make on requests for approval."""

    def __init__(self, decisions: Collection[Decision] = ()) -> None:
        self._decisions = decisions
        self._texts = AppendedTexts()

    def see(self, event: SessionEvent) -> list[Frame]:
        """Return the frames of an event. At the end of a run, `end` returns those that follow these."""
        if event.run_id is None:
            return []
        piece = self._texts.see(event)
        return [*([{"type": "chunk", "content": piece}] if piece else []), *self._others(event)]

    def end(self, event: SessionEvent, answer: dict[str, Any]) -> list[Frame]:
        """Return the frames of the end of a run. answer: of `queries.read_answer`."""
        self._texts.forget(event.run_id)
        ended = runs.RUN_COMPLETED.payload(event)
        turn = {"turn_id": str(event.run_id)}
        if event.type == runs.RUN_COMPLETED.name:
            last: Frame = {"type": "done", **answer, **turn}
        elif event.type == runs.RUN_CANCELLED.name:
            last = {"type": "aborted", "message": ended["message"], **turn}
        else:
            last = {"type": "error", "code": ended["code"], "message": ended["message"], **turn}
        return [last, {"type": "agent_end", **turn}]

    def _others(self, event: SessionEvent) -> list[Frame]:
        match event.type:
            case runs.REASONING_DELTA.name:
                return [{"type": "thinking", "content": runs.REASONING_DELTA.payload(event)["text"]}]
            case runs.RUN_STARTED.name:
                agent = runs.RUN_STARTED.payload(event)["agent_id"]
                return [{"type": "agent_start", "agent_alias": agent, "turn_id": str(event.run_id)}]
            case tools.TOOL_REQUESTED.name:
                call = tools.TOOL_REQUESTED.payload(event)
                named = {"id": call["execution_id"], "name": call["tool"]}
                return [{"type": "tool_call", **named, "args": call["arguments"]}]
            case tools.TOOL_COMPLETED.name:
                done = tools.TOOL_COMPLETED.payload(event)
                return [_result(done["execution_id"], done["tool"], done["output"], is_error=False)]
            case tools.TOOL_FAILED.name:
                failed = tools.TOOL_FAILED.payload(event)
                return [_result(failed["execution_id"], failed["tool"], failed["error"], is_error=True)]
            case tools.APPROVAL_REQUESTED.name:
                return [self._approval(event)]
            case tools.APPROVAL_DECIDED.name:
                made = tools.APPROVAL_DECIDED.payload(event)
                return [{"type": "approval_result", "request_id": made["approval_id"], "status": made["status"]}]
            case tools.INPUT_REQUESTED.name:
                asked = tools.INPUT_REQUESTED.payload(event)
                found = {"request_id": asked["request_id"], "question": asked["question"], "options": asked["options"]}
                return [{"type": "input_request", **found, "timeout_secs": _seconds_until(asked["expires_at"], event)}]
            case tools.PLAN_UPDATED.name:
                tasks = tools.PLAN_UPDATED.payload(event)["tasks"]
                entries = [
                    {"content": task["goal"], "status": _PLAN.get(task["status"], task["status"])} for task in tasks
                ]
                return [{"type": "plan", "entries": entries}]
            case runs.SESSION_COMPACTED.name:
                compacted = runs.SESSION_COMPACTED.payload(event)
                dropped = {"dropped_messages": compacted["turns"], "reason": compacted["reason"]}
                return [{"type": "history_trimmed", **dropped}]
        return []

    def _approval(self, event: SessionEvent) -> Frame:
        asked = tools.APPROVAL_REQUESTED.payload(event)
        may_decide = any(choice in self._decisions for choice in asked["choices"])
        return {
            # Of another type if somebody else decides: the client must not ask its user.
            "type": "approval_request" if may_decide else "approval_pending",
            "request_id": asked["approval_id"],
            "tool": asked["tool"],
            "arguments_summary": shorten(_as_text(asked["arguments"]), _SUMMARY_CHARACTERS),
            "timeout_secs": _seconds_until(asked["expires_at"], event),
            "risk": asked["risk"],
            "reason": asked["reason"],
            "origins": asked["origins"],
        }


def _result(execution_id: str, tool: str, output: str, *, is_error: bool) -> Frame:
    return {"type": "tool_result", "id": execution_id, "name": tool, "output": output, "is_error": is_error}


def _seconds_until(expires_at: str, event: SessionEvent) -> int:
    """Return the seconds from the event to that time."""
    asked_at = (event.ts or 0) / 1000
    return max(0, round(datetime.fromisoformat(expires_at).timestamp() - asked_at)) if event.ts else 0


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
