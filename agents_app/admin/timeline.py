"""The timeline of a run: its steps, tool calls and events, with bars for their times. Reads no rows itself."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from agents_app.models import Run, Step
from audit_app.admin_base.names import name_of
from audit_app.kernel.safe_text import clipped, duration, summary, took, visible
from audit_app.models import Event
from tools_app.admin.executions import STATUS_TONES
from tools_app.models import ToolExecution
from tools_app.types.approvals import outcome_of
from tools_app.types.tools import risk_label

# A page cuts texts to this length; the conversation has the whole text.
SHOWN_CHARACTERS = 20_000
_WORTH_A_BAR = timedelta(milliseconds=100)
_FAILED_ENDS = ("run.failed", "run.timed_out")
# After these events the next model call begins.
_BOUNDARIES = ("run.started", "step.completed", "tool.completed", "tool.failed")
RUN_TONES = {
    "queued": "info",
    "running": "info",
    "waiting": "warning",
    "completed": "success",
    "failed": "danger",
    "timed_out": "danger",
    "cancelled": "warning",
}


@dataclass(frozen=True)
class Bar:
    """A period.

    left, width: percent of the whole run.
    anchor: id of the element with its details.
    """

    label: str
    length: str
    tone: str
    left: float
    width: float
    anchor: str = ""


@dataclass(frozen=True)
class _Period:
    """The times of a bar."""

    label: str
    tone: str
    start: datetime
    stop: datetime
    anchor: str = ""

    def bar(self, begin: datetime, whole: timedelta) -> Bar:
        """Return the bar. begin, whole: beginning and length of the whole timeline."""
        left = min(max((self.start - begin) / whole * 100, 0.0), 100.0)
        width = min(max((self.stop - self.start) / whole * 100, 0.4), max(100 - left, 0.4))
        return Bar(self.label, took(self.start, self.stop), self.tone, round(left, 2), round(width, 2), self.anchor)


@dataclass(frozen=True)
class Call:
    """A tool call of a step.

    tone: colour of its status.
    outcome: of the request for its approval; empty without one.
    """

    row: ToolExecution
    tone: str
    at: str
    waited: str
    length: str
    output: str
    error: str
    risk: str
    outcome: str


@dataclass(frozen=True)
class StepCard:
    """A recorded model call.

    number: from 1.
    unplanned: requested tool calls that were not planned.
    """

    row: Step
    number: int
    at: str
    length: str
    text: str
    reasoning: str
    calls: tuple[Call, ...]
    unplanned: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class EventLine:
    row: Event
    at: str
    details: str


@dataclass(frozen=True)
class Timeline:
    """The timeline. length: duration of the run so far, including the wait in the queue."""

    length: str
    bars: tuple[Bar, ...]
    steps: tuple[StepCard, ...]
    events: tuple[EventLine, ...]


def build(
    run: Run,
    steps: Sequence[Step],
    executions: Sequence[ToolExecution],
    events: Sequence[Event],
    *,
    asked: Collection[UUID] = (),
    now: datetime,
) -> Timeline:
    """Return the timeline of a run up to `now`, ordered by step and call.

    events: by `seq`.
    asked: ids of the executions that a user was asked about.
    """
    end = run.ended_at or now
    cards = tuple(_card(run, step, [row for row in executions if row.step == step.index]) for step in steps)
    lines = tuple(_line(run, event) for event in events)
    return Timeline(took(run.created_at, end), tuple(_bars(run, cards, events, asked, end)), cards, lines)


def _line(run: Run, event: Event) -> EventLine:
    started = int(run.created_at.timestamp() * 1000)
    return EventLine(event, _offset((event.ts - started) / 1000), summary(event.payload, 400))


def _card(run: Run, step: Step, executions: Sequence[ToolExecution]) -> StepCard:
    planned = {row.call_index for row in executions}
    return StepCard(
        row=step,
        number=step.index + 1,
        at=_since(run, step.started_at),
        length=took(step.started_at, step.ended_at),
        text=clipped(visible(step.text), SHOWN_CHARACTERS),
        reasoning=clipped(visible(step.reasoning), SHOWN_CHARACTERS),
        calls=tuple(_call(run, row) for row in executions),
        unplanned=tuple(call for index, call in enumerate(step.tool_calls) if index not in planned),
    )


def _call(run: Run, row: ToolExecution) -> Call:
    asked = getattr(row, "approval", None)
    return Call(
        row=row,
        tone=STATUS_TONES.get(row.status, "info"),
        at=_since(run, row.created_at),
        waited=took(row.created_at, row.started_at),
        length=took(row.started_at, row.completed_at),
        output=clipped(row.output or "", SHOWN_CHARACTERS),
        error=clipped(visible(row.error or ""), SHOWN_CHARACTERS),
        risk=risk_label(row.risk, row.effect),
        outcome=outcome_of(asked.status, asked.decision, name_of(asked, "decided_by") or asked.decided_by)
        if asked
        else "",
    )


def _bars(
    run: Run, cards: Sequence[StepCard], events: Sequence[Event], asked: Collection[UUID], end: datetime
) -> list[Bar]:
    """Return the bars of the wait in the queue, of each model and tool call, of waits, and of the current activity."""
    periods = [_Period("Queued", "quiet", run.created_at, run.started_at or end)]
    for card in cards:
        label = f"Step {card.number} · model"
        periods.append(_Period(label, "model", card.row.started_at, card.row.ended_at, f"step-{card.number}"))
        for call in card.calls:
            periods += _call_periods(call.row, call.tone, call.row.id in asked, end)
    periods += _failed_model_calls(run, events, end)
    last = max((period.stop for period in periods), default=run.created_at)
    if run.ended_at is None and run.started_at is not None and end - last > _WORTH_A_BAR:
        periods.append(_Period(f"Now {run.status}", "now", last, end))
    # Stable: what begins at the same time keeps the order of steps and calls.
    periods.sort(key=lambda period: max(period.start, run.created_at))
    whole = max(end - run.created_at, timedelta(milliseconds=1))
    return [period.bar(run.created_at, whole) for period in periods]


def _call_periods(row: ToolExecution, tone: str, is_asked: bool, end: datetime) -> list[_Period]:
    """Return the wait of a tool call, if it was asked about or long, and its execution."""
    tool, anchor = visible(row.tool), f"call-{row.pk}"
    stop = row.completed_at or end
    started = row.started_at or stop
    periods = []
    if is_asked:
        periods.append(_Period(f"{tool} · waits for a person", "warning", row.created_at, started, anchor))
    elif started - row.created_at > _WORTH_A_BAR and row.started_at:
        periods.append(_Period(f"{tool} · waits", "quiet", row.created_at, started, anchor))
    if row.started_at or not is_asked:
        periods.append(_Period(tool, tone, row.started_at or row.created_at, stop, anchor))
    return periods


def _failed_model_calls(run: Run, events: Sequence[Event], end: datetime) -> list[_Period]:
    """Return the model calls that failed, and the pauses before the next try: they are in the events alone."""
    periods: list[_Period] = []
    since = run.started_at or run.created_at
    for event in events:
        at = datetime.fromtimestamp(event.ts / 1000, UTC)
        is_retried = event.type == "run.waiting" and event.payload.get("waiting_on") == "retry"
        is_end = event.type in _FAILED_ENDS and str(event.payload.get("code", "")).startswith("model_")
        if is_retried or is_end:
            periods.append(_Period("Model call · failed", "danger", since, at, "events"))
        if is_retried and event.payload.get("until"):
            until = min(datetime.fromisoformat(event.payload["until"]), end)
            periods.append(_Period("Waits to retry", "quiet", at, until, "events"))
            at = until
        if is_retried or event.type in _BOUNDARIES:
            since = at
    return periods


def _since(run: Run, moment: datetime) -> str:
    return _offset((moment - run.created_at) / timedelta(seconds=1))


def _offset(seconds: float) -> str:
    return f"+{duration(max(seconds, 0.0))}"
