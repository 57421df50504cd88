"""The final state of a session without ids and times, so that two sessions can be compared."""

import json
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import redis
from django.db.models import Sum

from agents_app.models import DailyUsage, Run, RunRecall, Step
from audit_app import stream
from audit_app.models import AuditEntry, Event
from sessions_app.models import Turn
from tools_app.models import Approval, ToolExecution
from tools_app.types import without_receipt

_PLACE = tuple[int, int]
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Ending:
    runs: list[Any]
    steps: list[Any]
    recalled: list[Any]
    usage: list[Any]
    turns: list[Any]
    executions: list[Any]
    approvals: list[Any]
    events: "Counter[Any]"
    audit: "Counter[Any]"
    last_events: list[str]


def ending_of(session_id: UUID, *, unknown: Collection[_PLACE], ignored: frozenset[str]) -> Ending:
    """Return the final state of a session.

    unknown: executions (step, call) whose process died during the call; their outcome is left out
    ignored: event types that are not compared
    """
    events = list(Event.objects.filter(session_id=session_id).exclude(type__in=ignored).order_by("seq"))
    executions = list(ToolExecution.objects.filter(session_id=session_id).order_by("run_id", "step", "call_index"))
    hidden = {str(execution.id) for execution in executions if (execution.step, execution.call_index) in unknown}
    # An attempt whose process died is repeated, and each has its entry; so has each recovery of a run.
    entries = [
        entry
        for entry in AuditEntry.objects.filter(session_id=session_id).exclude(action="RunRecovered")
        if entry.action != "ToolExecutionStarted" or entry.details["attempt"] == 1
    ]
    rows = Run.objects.filter(conversation_id=session_id)
    order = {run.id: run.workstream or run.ordinal for run in rows}
    parents = {run.id for run in rows if run.child_count}
    return Ending(
        runs=[
            (order[run.id], run.status, run.answer, run.error_code, run.error_message, run.tries, run.user_turn_count)
            + (
                run.input_tokens,
                run.output_tokens,
                run.cost_nanos,
                run.fallback,
                run.waiting_on,
                run.owner,
                run.end_stored,
                run.is_on_its_own,
                order.get(run.listener_id),
            )
            # a recorded step forgives the crashes before it; a run that recorded none keeps its count
            + (run.crashes if run.status == "completed" else 0,)
            for run in rows.order_by("workstream", "ordinal")
        ],
        steps=[
            (order[step.run_id], step.index, step.text, step.tool_calls, step.finish_reason)
            # a report of a child run may come before or after a model call
            + (() if step.run_id in parents else (step.turns_seen,))
            for step in Step.objects.filter(run_id__in=order).order_by("run__workstream", "run__ordinal", "index")
        ],
        recalled=[
            (order[run_id], [memory["text"] for memory in memories])
            for run_id, memories in RunRecall.objects.filter(run_id__in=order)
            .order_by("run__workstream", "run__ordinal")
            .values_list("run_id", "memories")
        ],
        usage=_usage(session_id),
        turns=[_turn(turn, hidden) for turn in Turn.objects.filter(session_id=session_id).order_by("ordinal", "part")],
        executions=[
            (
                order[one.run_id],
                one.step,
                one.call_index,
                one.call_id,
                one.tool,
                one.arguments,
                one.owner,
                one.renudge_at,
            )
            + (() if str(one.id) in hidden else (one.status, _without_ids(one.output), one.error))
            for one in sorted(executions, key=lambda one: (str(order[one.run_id]), one.step, one.call_index))
        ],
        approvals=[
            (approval.execution.tool, approval.status, approval.decided_by)
            for approval in Approval.objects.filter(execution__in=executions).select_related("execution")
        ],
        events=Counter(_event(event, hidden) for event in events),
        audit=Counter(_entry(entry, hidden) for entry in entries),
        last_events=[
            event.type
            for event in events
            if event.type.startswith(("run.", "message.")) and event.parent_run_id is None
        ],
    )


def _without_ids(text: str | None) -> str:
    """Return a tool's result without ids of runs, which differ in each session."""
    return _ID.sub("id", text or "")


def _usage(session_id: UUID) -> list[Any]:
    """Return the session's usage by model. A play around midnight has two days."""
    rows = DailyUsage.objects.filter(conversation_id=session_id).order_by("provider", "model")
    models = rows.values_list("provider", "model")
    return list(models.annotate(Sum("calls"), Sum("input_tokens"), Sum("output_tokens"), Sum("cost_nanos")))


def live_text(valkey: "redis.Redis", run_id: UUID) -> dict[int, str]:
    """Return each step's text from the live stream alone. Raises AssertionError at a gap or a repetition."""
    texts: dict[int, str] = {}
    for _, fields in valkey.xrange(stream.run_key(run_id)):
        entry = json.loads(fields["e"])
        step = entry.get("step", 0)
        match entry["type"]:
            case "message.reset":
                texts[step] = ""
            case "snapshot":
                texts[step] = entry["text"]
            case "text.delta":
                so_far = texts.get(step, "")
                assert entry["offset"] == len(so_far), f"a gap or a double in step {step} of run {run_id}"
                texts[step] = so_far + entry["text"]
    return texts


def _turn(turn: Turn, hidden: set[str]) -> Any:
    is_hidden = turn.role == "tool" and bool(hidden & set(turn.tool_call_ids or ()))
    return (
        turn.ordinal,
        turn.part,
        turn.branch,
        turn.is_off_path,
        turn.role,
        "" if is_hidden else _without_ids(without_receipt(turn.content)),
        turn.state,
        turn.error_code,
        turn.error_message,
        turn.is_answer,
        json.dumps(turn.tool_calls),
        turn.tool_call_id,
        len(turn.tool_call_ids or ()),
    )


def _event(event: Event, hidden: set[str]) -> Any:
    payload = event.payload
    if payload.get("execution_id") in hidden and event.type in ("tool.completed", "tool.failed"):
        return ("tool ended", event.step, payload["call_id"])
    names = ("tool", "call_id", "status", "code", "state", "text_length", *(() if event.workstream else ("ordinal",)))
    compared = [payload.get(name) for name in names]
    return (event.type, event.workstream, event.step, event.actor, *compared, json.dumps(payload.get("usage")))


def _entry(entry: AuditEntry, hidden: set[str]) -> Any:
    if entry.details.get("execution_id") in hidden and entry.action.startswith("ToolExecution"):
        has_begun = entry.action == "ToolExecutionStarted"
        return ("started" if has_begun else "ended", entry.details["call_id"])
    compared = [entry.details.get(name) for name in ("call_id", "status", "code", "state")]
    return (entry.action, entry.actor, entry.agent_id, *compared)
