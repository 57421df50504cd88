"""Workstream cards: child runs on the page, in the answer of the run that launched them."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils.safestring import SafeString

from agents_app.types.child_runs import ChildState, ChildView, Phase
from audit_app.kernel.redact import masked
from audit_app.kernel.shorten import one_line
from sessions_app.surfaces.chat import labels
from sessions_app.surfaces.chat.collapse import Folded, pretty
from sessions_app.surfaces.chat.tool_cards import CallState
from tools_app.run_progress import Plan, Progress

_LONGEST_BRIEF = 160
_NUMBERED = re.compile(r"(.*[^\W\d_])[\W_]*\d+\W*", re.DOTALL)
# CSS class, as of tool cards, and label.
_ENDED = {
    ChildState.COMPLETED: ("done", "done"),
    ChildState.FAILED: ("failed", "failed"),
    ChildState.TIMEOUT: ("timed-out", "timed out"),
    ChildState.CANCELED: ("cancelled", "stopped"),
}
_PHASES = {
    Phase.PLANNING: ("running", "planning"),
    Phase.EXECUTING_TOOL: ("running", "using a tool"),
    Phase.SYNTHESIZING: ("running", "writing"),
    Phase.BLOCKED: ("waiting", "waiting for its workstreams"),
}
_ASKS = {"approval": labels.ASKS, "input": ("asks", "asks a question")}


@dataclass(frozen=True)
class PersonPart:
    """A message of a person to a workstream, in its card."""

    person_text: str


@dataclass(frozen=True)
class WorkstreamCard:
    """A child run on the page.

    parts: parts of an open one what it has recorded; the cards of its own workstreams, and their groups.
    call_id, step: the tool call that launched it, None for the task of a network.
    plan, progress: of an open one.
    result: result of an ended one, as sanitised HTML.
    """

    view: ChildView
    parts: tuple[Any, ...] = ()
    call_id: UUID | None = None
    step: int = 0
    plan: Plan | None = None
    progress: Progress | None = None
    result: SafeString | None = None

    @property
    def id(self) -> UUID:
        """Return the id of the child run."""
        return self.view.launch_id

    @property
    def workstream(self) -> str:
        """Return the name that its parent chose."""
        return self.view.workstream

    @property
    def name(self) -> str:
        return self.view.name or self.view.workstream

    @property
    def kin(self) -> str:
        """Return the agent and the name before its number, such as `helper/Worker`; empty for a name without one."""
        numbered = _NUMBERED.fullmatch(self.name)
        return f"{self.view.agent_id}/{numbered[1]}" if numbered else ""

    @property
    def is_open(self) -> bool:
        return self.view.ended_at is None

    @property
    def takes_messages(self) -> bool:
        """Return whether people may write to it and pause it. One that was asked to end takes no more."""
        return self.is_open and self.view.state is ChildState.RUNNING

    @property
    def asks(self) -> bool:
        """Return whether it, one of its calls or one of its own workstreams waits for a person.

        Its calls are read later than its state, and may ask already.
        """
        return bool(self.view.asks) or any(getattr(part, "asks", False) for part in self.parts)

    @property
    def task(self) -> Folded:
        """Return its task, masked and collapsed."""
        return pretty(self.view.instruction)

    @property
    def brief(self) -> str:
        """Return its progress on one line, else its task."""
        progress = self.progress if self.is_open else None
        if progress is None:
            return one_line(str(masked(self.view.instruction)), _LONGEST_BRIEF)
        return one_line(progress.line, _LONGEST_BRIEF)

    @property
    def state(self) -> CallState:
        name, label = _state_of(self.view)
        return CallState(self.id, name, label, _seconds(self.view))

    @property
    def deadline_at(self) -> datetime | None:
        """Return the end of its time, while that counts."""
        return self.view.deadline_at if self.is_open else None

    @property
    def used(self) -> str:
        """Return the tokens and the cost of an ended one, such as `1,200 tokens · 0.004 EUR`; empty for none."""
        count = self.view.usage.input_tokens + self.view.usage.output_tokens
        tokens = f"{count:,} tokens" if count else ""
        return " · ".join(filter(None, (tokens, labels.cost(self.view.cost))))

    @property
    def error(self) -> str:
        return str(masked(self.view.error)) if self.view.state is not ChildState.COMPLETED else ""


def _state_of(view: ChildView) -> tuple[str, str]:
    """Return the CSS class and the label of the state of a child run."""
    if view.ended_at is not None:
        return _ENDED[view.state]
    if view.state is ChildState.CANCELING:
        return "running", "finishing"
    if view.asks:
        return _ASKS[view.asks]
    if view.is_paused:
        return "waiting", "paused"
    if view.is_idle:
        return "waiting", "waiting for a message"
    if view.current_tool:
        return "running", f"using {view.current_tool}"
    return _PHASES[view.phase]


def _seconds(view: ChildView) -> float | None:
    if view.ended_at is None:
        return None
    return (view.ended_at - (view.started_at or view.created_at)).total_seconds()
