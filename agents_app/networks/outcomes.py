"""Outcomes of a network: attempts of tasks, results, and decisions of the scheduler. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class AttemptStatus(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TaskStatus(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"

    @property
    def is_ended(self) -> bool:
        return self not in (TaskStatus.WAITING, TaskStatus.RUNNING)


_KEY = re.compile(r"([\w-]+)(?:#(\d+))?(?:\[(\d+)\])?(?:~(\d+))?")


@dataclass(frozen=True, order=True)
class AttemptKey:
    """Identity of one attempt.

    iteration: iteration of a loop, from 1.
    item: item of a map, from 0, else -1.
    number: from 1.

    As text: `draft`, its second iteration `draft#2`, the first item of a map `each[0]`, its second attempt `each[0]~2`.
    """

    task: str
    iteration: int = 1
    item: int = -1
    number: int = 1

    def __str__(self) -> str:
        iteration = f"#{self.iteration}" if self.iteration > 1 else ""
        item = f"[{self.item}]" if self.item >= 0 else ""
        return f"{self.task}{iteration}{item}{f'~{self.number}' if self.number > 1 else ''}"

    @classmethod
    def parse(cls, text: str) -> "AttemptKey":
        """Return the key with this text. Raises ValueError."""
        found = _KEY.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is not an attempt")
        task, iteration, item, number = found.groups()
        return cls(task, int(iteration or 1), int(item) if item else -1, int(number or 1))


@dataclass(frozen=True)
class Attempt:
    """One try of a task: a child run. It is retried if it FAILED, not if it was CANCELLED.

    output: value of a structured answer, else the text.
    error: for users.
    """

    key: AttemptKey
    status: AttemptStatus = AttemptStatus.RUNNING
    text: str = ""
    output: Any = None
    error: str = ""


@dataclass(frozen=True)
class Start:
    """An attempt to start.

    delay_seconds: before it.
    prompt: message to the agent.
    """

    key: AttemptKey
    prompt: str
    delay_seconds: float = 0.0


@dataclass(frozen=True)
class TaskResult:
    """The state of a task, or its result. output: of a map, the list of outputs of the items, None for failed ones.

    reason: why it was skipped.
    attempts: number of those that were started.
    iteration: the last one of its loop.
    """

    status: TaskStatus = TaskStatus.WAITING
    text: str = ""
    output: Any = None
    error: str = ""
    reason: str = ""
    attempts: int = 0
    iteration: int = 1

    def to_dict(self) -> dict[str, Any]:
        return vars(self) | {"status": self.status.value}


@dataclass(frozen=True)
class Ending:
    """The end of a network. failed: the task because of which it failed, else empty."""

    failed: str = ""
    error: str = ""
    output: Any = None


@dataclass(frozen=True)
class Call:
    """The values with which a network is called. context: merged over that of the network."""

    message: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """The next actions: attempts to start and to cancel, or the end. results: of all tasks, in declared order."""

    results: Mapping[str, TaskResult]
    starts: tuple[Start, ...] = ()
    cancels: tuple[AttemptKey, ...] = ()
    ending: Ending | None = None
