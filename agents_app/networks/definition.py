"""Definition of a network: tasks of agents, their dependencies, and the consequences of errors. Pure.

`checks.check` finds the faults of a definition; everything else expects one without faults.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tools_app.policy.scope import INHERIT, Scope

MOST_TASKS = 100
MOST_ITEMS = 200  # of a map
MOST_REPEATS = 20  # of a loop
MOST_RETRIES = 5


class OnError(StrEnum):
    """The consequence of a task that has failed, after all retries.

    STOP: the network ends as failed.
    CONTINUE: tasks that depend on it run all the same.
    FALLBACK: another task runs instead, and provides the result.
    """

    STOP = "stop"
    CONTINUE = "continue"
    FALLBACK = "fallback"


class Operator(StrEnum):
    EQUALS = "equals"
    NOT_EQUALS = "not_equals"
    IN = "in"
    CONTAINS = "contains"
    GREATER_THAN = "greater_than"
    LESS_THAN = "less_than"
    EXISTS = "exists"


@dataclass(frozen=True)
class Condition:
    """A comparison of one value. path: a reference such as `tasks.triage.output.category` (see `references`)."""

    path: str
    operator: Operator = Operator.EXISTS
    value: Any = True


@dataclass(frozen=True)
class Loop:
    """A repetition: while `until` does not hold after its task has run, the tasks from `back_to` on run again.

    back_to: a task before it; empty for the task alone.
    most: number of times that they run at most; the last result stands if `until` never holds.
    """

    until: Condition
    most: int = 3
    back_to: str = ""


@dataclass(frozen=True)
class MapOver:
    """A list for each item of which a task runs once.

    items: a reference.
    most: longest list that is accepted.
    """

    items: str
    most: int = 50


@dataclass(frozen=True)
class Task:
    """One task of a network.

    agent: public id.
    prompt: text with references in `{{ }}`; empty: the message and the results it depends on.
    depends_on: names of tasks and groups.
    optional: runs only if a task with it in `activates` names it under `activate` of the answer.
    when: it runs only if this holds, which makes it optional too; `depends_on` only makes it wait then.
    value: JSON with references in its texts: the task calls no model, and this is its output.
    ask: text with references: the task asks a person this instead of an agent, and the answer is its output.
    options: answers to choose from.
    timeout: seconds for the answer; None: as for other questions.
    context: values for the prompt, merged over those of the network and of the call, key by key.
    tools, mcp_servers: further restrictions of the agent's.
    memory: patterns of keys of the shared memory.
    model: instead of the network's or the agent's.
    output_schema: JSON Schema of the answer.
    retries: how often it is tried again after a failure.
    retry_seconds: before the first, doubled each time.
    time_limit: seconds for one try.
    fallback: the task that runs instead, for OnError.FALLBACK.
    """

    name: str
    agent: str = "default"
    prompt: str = ""
    depends_on: tuple[str, ...] = ()
    optional: bool = False
    when: Condition | None = None
    value: Any = None
    ask: str | None = None
    options: tuple[str, ...] = ()
    timeout: float | None = None
    activates: tuple[str, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict)
    tools: Scope = INHERIT
    mcp_servers: Scope = INHERIT
    memory: Scope = INHERIT
    model: str = ""
    output_schema: dict[str, Any] | None = None
    retries: int = 0
    retry_seconds: float = 2.0
    time_limit: float | None = None
    on_error: OnError = OnError.STOP
    fallback: str = ""
    map_over: MapOver | None = None
    loop: Loop | None = None

    @property
    def is_optional(self) -> bool:
        return self.optional or self.when is not None

    @property
    def has_agent(self) -> bool:
        return self.value is None and self.ask is None

    @property
    def performer(self) -> str:
        """Return the agent for a picture; for a task without one, `value` or `person`."""
        return self.agent if self.has_agent else "value" if self.ask is None else "person"

    @property
    def answer_schema(self) -> dict[str, Any] | None:
        """Return the JSON Schema of the answer; by default one that lists the tasks to activate."""
        if self.output_schema is not None or not self.activates:
            return self.output_schema
        names = {"type": "array", "items": {"enum": [*self.activates]}}
        properties = {"activate": names, "reason": {"type": "string"}}
        return {"type": "object", "properties": properties, "required": ["activate"], "additionalProperties": False}


@dataclass(frozen=True)
class Group:
    """Tasks that may run at the same time. Its name in `depends_on` stands for all of them.

    depends_on: names that each task of the group depends on, too.
    """

    name: str
    tasks: tuple[Task, ...]
    depends_on: tuple[str, ...] = ()


@dataclass(frozen=True)
class Network:
    """A pipeline of agents.

    context, tools, mcp_servers, memory, model: for tasks that have none of their own
    concurrency: number of tasks that run at the same time at most
    time_limit: seconds for the whole network
    result: name of the task whose result is the network's; empty: that of the last tasks
    """

    name: str
    tasks: tuple[Task | Group, ...]
    description: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)
    tools: Scope = INHERIT
    mcp_servers: Scope = INHERIT
    memory: Scope = INHERIT
    model: str = ""
    concurrency: int = 8
    time_limit: float | None = None
    result: str = ""

    def placed(self) -> Iterator[tuple[str, Task]]:
        """Yield each task as declared, with a place such as `tasks[1].tasks[0]`, in declared order."""
        for number, entry in enumerate(self.tasks):
            if isinstance(entry, Task):
                yield f"tasks[{number}]", entry
            else:
                yield from ((f"tasks[{number}].tasks[{inner}]", task) for inner, task in enumerate(entry.tasks))

    def groups(self) -> Iterator[tuple[str, Group]]:
        """Yield each group with its place."""
        yield from ((f"tasks[{at}]", entry) for at, entry in enumerate(self.tasks) if isinstance(entry, Group))

    def flat(self) -> dict[str, Task]:
        """Return the tasks by name, in declared order, depending on tasks alone: groups are replaced by theirs."""
        members = {group.name: tuple(task.name for task in group.tasks) for _, group in self.groups()}
        before = {task.name: group.depends_on for _, group in self.groups() for task in group.tasks}
        found: dict[str, Task] = {}
        for _, task in self.placed():
            names = [
                one for name in (*before.get(task.name, ()), *task.depends_on) for one in members.get(name, (name,))
            ]
            found[task.name] = replace(task, depends_on=tuple(dict.fromkeys(names)))
        return found


def merged(*levels: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mappings merged key by key, later ones first. Lists are replaced."""
    result: dict[str, Any] = {}
    for level in levels:
        for key, value in level.items():
            before = result.get(key)
            both = isinstance(before, Mapping) and isinstance(value, Mapping)
            result[key] = merged(before, value) if both and before is not None else value
    return result
