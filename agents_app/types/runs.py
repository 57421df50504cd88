"""Runs as values: statuses, recorded steps, snapshots. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from agents_app.types.child_runs import WorkingChild
from agents_app.types.context import ContextOverflow, ContextSize, Limits
from agents_app.types.message_parts import VoiceNotes
from agents_app.types.model_calls import Message, Usage
from agents_app.types.run_cost import TreeCost
from tools_app.types import ExecutionView, ToolCall

REJECTED = "rejected"  # finish reason of a step whose answer does not match the JSON Schema


class RunStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"

    @property
    def is_terminal(self) -> bool:
        return self not in (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING)


class WaitingOn(StrEnum):
    TOOLS = "tools"
    APPROVAL = "approval"
    INPUT = "input"
    CHILDREN = "children"
    PARENT = "parent"
    RETRY = "retry"
    BUDGET = "budget"  # other runs have reserved the tokens that a budget above it has left
    PLACE = "place"  # of a queued run: its user has as many running runs as one may have


def waits_for_place(most: int) -> str:
    """Return the text, for users, of a queued run whose user has as many running runs as one may have."""
    return f"Waiting for a place: at most {most:,} of your runs run at once"


@dataclass(frozen=True)
class StepView:
    """A recorded step: the whole response of one model call.

    index: place in the run, from 0.
    turns_seen: number of the run's user turns that the request contained.
    rejected_text: the answer if it does not match the JSON Schema; `text` is empty then, and only the model sees it.
    """

    index: int
    text: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: str
    reasoning: str = ""
    usage: Usage = field(default_factory=Usage)
    turns_seen: int = 1
    reasoning_seconds: float = 0.0
    rejected_text: str = ""
    dialect_state: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Snapshot:
    """The state of a run on which `next_step` decides.

    user_turns: the run's user turns, oldest first; several if it was steered.
    stopped, budget_refusal: the reason why the emergency stop, or the cost budget, forbids another model call; empty if
        they do not.
    output_schema: JSON Schema of the answer, if it has one.
    context: sizes of what its requests contain besides its own messages.
    compactions: recorded compactions of this run, also failed ones.
    preparations: recorded compactions and transcriptions of this run.
    voice: voice notes among its user turns.
    overflow: overflow of the last model call, if its server refused it as too long.
    compacts_only: it answers nothing.
    recalled: memories in front of its user turns.
    reports_only: it has no message of a person: it reports what child runs have done. It may answer with nothing.
    has_later_message: another run of the conversation waits for it.
    working: its child runs that work. Those that wait for it are not among them.
    is_interactive, is_paused, is_terminating: of a child run.
    is_interactive: it waits after its task.
    """

    user_turns: tuple[Message, ...]
    steps: tuple[StepView, ...]
    executions: tuple[ExecutionView, ...]
    limits: Limits
    active_seconds: float = 0.0
    cancel_requested: bool = False
    stopped: str = ""
    budget_refusal: str = ""
    output_schema: dict[str, Any] | None = None
    context: ContextSize = ContextSize()
    compactions: int = 0
    preparations: int = 0
    voice: VoiceNotes = VoiceNotes()
    overflow: ContextOverflow | None = None
    compacts_only: bool = False
    recalled: str = ""
    reports_only: bool = False
    has_later_message: bool = False
    working: tuple[WorkingChild, ...] = ()
    is_interactive: bool = False
    is_paused: bool = False
    is_terminating: bool = False


@dataclass(frozen=True)
class RunView:
    """A run for other apps.

    conversation_id: opaque here.
    error_code: stable.
    error_message: for users.
    path: names for people of the workstreams above it and its own; empty for the run of a message.
    """

    id: UUID
    conversation_id: UUID
    agent_id: str
    ordinal: int
    status: RunStatus
    waiting_on: WaitingOn | None
    fence: int
    crashes: int
    error_code: str
    error_message: str
    retry_at: datetime | None
    request_id: str
    actor: str
    usage: Usage
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    agent_version: int | None = None
    parent_id: UUID | None = None
    workstream: str = ""
    path: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunTranscript:
    """A run with its steps and executions: what a conversation stores when the run ends.

    executions: ordered by step and call
    answer: the final text; may be partial if the run was cancelled or failed
    is_structured: whether the answer has a JSON Schema; the text of a completed run is JSON then
    with_workstreams: what the run and those below it have used; None if there are none below it
    """

    run: RunView
    steps: tuple[StepView, ...]
    executions: tuple[ExecutionView, ...]
    answer: str
    is_structured: bool = False
    with_workstreams: TreeCost | None = None

    @property
    def usage(self) -> Usage:
        """Return the usage of the run, of which the cached and the reasoning tokens are those of its steps."""
        steps = sum((step.usage for step in self.steps), Usage())
        cached, reasoning = steps.cached_input_tokens, steps.reasoning_tokens
        return replace(self.run.usage, cached_input_tokens=cached, reasoning_tokens=reasoning)

    @property
    def texts(self) -> list[str]:
        """Return the texts that the run has said, by step; of an answer with a JSON Schema, the answer alone."""
        earlier = [step.text for step in self.steps[: self.answering_step]]
        return [*("" for _ in earlier), self.answer] if self.is_structured and self.answer else [*earlier, self.answer]

    @property
    def answering_step(self) -> int:
        """Return the step whose text is the answer: the last recorded one, or the one that was open at the end."""
        last = self.steps[-1] if self.steps else None
        is_recorded = last is not None and not last.tool_calls and last.text == self.answer
        return len(self.steps) - 1 if is_recorded else len(self.steps)
