"""Frozen data of trees of runs: child runs, their options and states, and messages between runs. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from agents_app.types.model_calls import Usage
from audit_app.kernel.ids import derived_id

DEFAULT_DEADLINE_SECONDS, LEAST_DEADLINE_SECONDS, MOST_DEADLINE_SECONDS = 300, 30, 1800
MOST_BACKGROUND_SECONDS = 86_400  # of one that is launched with `background`
GRACE_SECONDS = 60  # of a child run that was asked to end
MOST_PAUSED_SECONDS = 86_400  # of a child run that nobody resumes
PROGRESS_SECONDS = 60  # between two runs that report progress of one child run, at least
MOST_DEPTH = 5
MOST_OPEN_CHILDREN = 100  # of one run

# Behind the messages of every conversation: to a release that knows no child runs, their root is always before them.
FIRST_ORDINAL = 2**30

LAUNCH_TOOL, WAIT_TOOL, NETWORK_TOOL = "launch_workstream", "wait_workstreams", "run_network"
AGENTS_TOOL = "agents_list"


# The argument from which a call of each tool derives the id of the child run that it starts.
_NAMING = {LAUNCH_TOOL: "id", NETWORK_TOOL: "name"}


def child_id_of(tool: str, execution_id: UUID, arguments: Mapping[str, Any]) -> UUID | None:
    """Return the id of the child run that a tool call starts, the same however often it is executed; else None."""
    name = arguments.get(_NAMING.get(tool, ""))
    return derived_id(execution_id, name) if isinstance(name, str) else None


class RunKind(StrEnum):
    """Reason why a run exists.

    MESSAGE: a message of a session.
    WORKSTREAM: a part of another run's task.
    TASK: a task of a network.
    REPORT: results of child runs on their own; no message of a person.
    """

    MESSAGE = "message"
    WORKSTREAM = "workstream"
    TASK = "task"
    REPORT = "report"


class Notify(StrEnum):
    """Time at which a person learns of a child run on its own.

    DONE: a run reports its result.
    CHANGES: so it does, and its progress at most once in PROGRESS_SECONDS.
    SILENT: with their next message.
    """

    DONE = "done"
    CHANGES = "changes"
    SILENT = "silent"


class MessageKind(StrEnum):
    """Kind of a message to a run.

    TASK: what a child run has to do.
    MESSAGE: a further message of the parent.
    PERSON: a message of a person.
    DIRECTIVE: an instruction beside it.
    FINISH: the instruction to answer with what it has; it may use no more tools.
    RESULT: what an interactive child has answered.
    REPORT: the end of a child run.
    NOTICE: a warning about the deadline, or progress.
    """

    TASK = "task"
    MESSAGE = "message"
    PERSON = "person"
    DIRECTIVE = "directive"
    FINISH = "finish"
    RESULT = "result"
    REPORT = "report"
    NOTICE = "notice"


class ChildState(StrEnum):
    """State of a child run, as parents and clients see it."""

    RUNNING = "running"
    CANCELING = "canceling"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELED = "canceled"


_STATES = {
    "completed": ChildState.COMPLETED,
    "failed": ChildState.FAILED,
    "timed_out": ChildState.TIMEOUT,
    "cancelled": ChildState.CANCELED,
}


def state_of(status: str, *, is_terminating: bool) -> ChildState:
    """Return the state of a child run with this run status."""
    return _STATES.get(status, ChildState.CANCELING if is_terminating else ChildState.RUNNING)


class Phase(StrEnum):
    """Phase of a child run. BLOCKED: waiting for a user, the parent or child runs."""

    PLANNING = "planning"
    EXECUTING_TOOL = "executing_tool"
    SYNTHESIZING = "synthesizing"
    BLOCKED = "blocked"
    DONE = "done"


def title_of(path: Sequence[str]) -> str:
    """Return the name of a workstream for people, with those above it, such as `Prices › Deep one`."""
    return " › ".join(path)


@dataclass(frozen=True)
class ChildSpec:
    """Options of a child run, stored with it.

    name: shown to users.
    instruction: text of the task.
    context: JSON that is appended to the task.
    is_interactive: waits for further messages after the task and ends only when terminated.
    deadline_seconds: time for the task, without waits for the parent.
    merges_artifacts: the files are copied to those of the parent at the end.
    fork_step: index of the parent's step from which on it does not see the parent's conversation; None: it sees none.
    above: names of the workstreams above it; set at its start.
    agents_above: public ids of the other agents whose runs are above it and whose caps count its costs; set at its
        start.
    is_background: goes on when the root run that launched it answers.
    notify: a `Notify`.
    runs_before: number of runs since the last message of a person, without those of its own tree.
    may_have_budget: it or a run above it has a token budget. Set by `start_child`; runs of earlier releases have no
        value, so their budgets are looked for.
    """

    name: str = ""
    instruction: str = ""
    context: dict[str, Any] | None = None
    is_interactive: bool = False
    deadline_seconds: int = DEFAULT_DEADLINE_SECONDS
    merges_artifacts: bool = True
    fork_step: int | None = None
    above: Sequence[str] = ()
    agents_above: Sequence[str] = ()
    is_background: bool = False
    notify: str = Notify.DONE.value
    runs_before: int = 0
    may_have_budget: bool = True

    @property
    def is_notified(self) -> bool:
        """Return whether a person gets its result before their next message."""
        return self.notify != Notify.SILENT.value

    @property
    def notifies_changes(self) -> bool:
        """Return whether its progress starts runs, too."""
        return self.notify == Notify.CHANGES.value

    @property
    def path(self) -> tuple[str, ...]:
        """Return the names for people of the workstreams above it and its own."""
        return (*self.above, self.name)

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "ChildSpec":
        """Return the spec that `vars` gave. Keys that this release does not know are ignored."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in stored.items() if name in known})


class WorkingChild(NamedTuple):
    """A child run that works. outlives: a run that answers does not wait for it."""

    id: str
    workstream: str
    outlives: bool = False


class ChildReport(NamedTuple):
    """The last result of a child run.

    is_paused: it waits because it is paused.
    error: for users.
    """

    launch_id: UUID
    workstream: str
    state: ChildState
    is_paused: bool
    error: str
    result: str


@dataclass(frozen=True)
class ChildView:
    """A child run for tools and surfaces.

    launch_id: id of the run.
    workstream: name chosen by the parent, unique among the parent's open children.
    instruction: text of the task.
    is_idle: waiting for a message of the parent.
    asks: what it waits for a person to decide or answer, if anything: approval | input.
    result: last answer.
    error: for users.
    deadline_at: of a paused one the end of the pause; None while it waits for the parent, or it or a run below it for
        a person.
    usage, cost: its own, without the runs below it; cost in units of the currency, None without a price.
    path: names for people of the workstreams above it and its own.
    number: among the child runs of its conversation, from 1.
    """

    launch_id: UUID
    parent_id: UUID
    workstream: str
    name: str
    instruction: str
    agent_id: str
    kind: RunKind
    state: ChildState
    phase: Phase
    current_tool: str
    is_interactive: bool
    is_idle: bool
    is_paused: bool
    asks: str
    result: str
    error: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    deadline_at: datetime | None
    deadline_seconds: int
    usage: Usage = Usage()
    cost: float | None = None
    path: tuple[str, ...] = ()
    number: int = 0
