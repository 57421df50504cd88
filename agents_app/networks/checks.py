"""Faults of a network's definition, each with its place, such as `tasks[2].depends_on[0]`. Pure.

A definition without faults ends: each of its tasks runs, is skipped for a stated reason, or is never needed.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agents_app.networks import references
from agents_app.networks.definition import (
    MOST_ITEMS,
    MOST_REPEATS,
    MOST_RETRIES,
    MOST_TASKS,
    Condition,
    Network,
    OnError,
    Operator,
    Task,
)
from agents_app.networks.graph import Cycle, Graph, build, region
from agents_app.structured_output import check_schema
from audit_app.kernel.errors import AppError
from tools_app.types.questions import LONGEST_OPTION, LONGEST_QUESTION, MOST_OPTIONS

_NAME = re.compile(r"[A-Za-z][\w-]{0,59}")
_RESERVED = {"none", "optional", *references.ROOTS}
_LONGEST_SECONDS = 24 * 3600.0
_LONGEST_TIMEOUT_SECONDS = 30 * 24 * 3600.0
_LONGEST_RETRY_SECONDS = 3600
_LONGEST_PROMPT = 100_000  # characters
_OF_ITEMS = ("prompt", "value", "ask")
_OF_AGENTS = ("agent", "prompt", "activates", "tools", "mcp_servers", "memory", "model", "output_schema", "time_limit")
_OF_TRIES = ("retries", "retry_seconds")
_OF_QUESTIONS: tuple[str, ...] = ("options", "timeout")


@dataclass(frozen=True)
class Fault:
    """A fault of a definition. place: empty for the network itself."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message


def check(network: Network) -> tuple[Fault, ...]:
    """Return the faults, in the order of the definition; of those of the graph cycles alone if there are others."""
    faults = [*_of_network(network), *_of_names(network)]
    tasks = network.flat()
    known = {*tasks, *(group.name for _, group in network.groups())}
    for place, group in network.groups():
        if not group.tasks:
            faults.append(Fault(f"{place}.tasks", "a group needs at least one task"))
        faults += _unknown(f"{place}.depends_on", group.depends_on, known)
    for place, task in network.placed():
        faults += [*_of_limits(place, task), *_of_relations(place, task, tasks, known)]
    return (*faults, *_of_cycle(network)) if faults else tuple(_of_graph(network))


def _of_network(network: Network) -> Iterator[Fault]:
    if not _NAME.fullmatch(network.name):
        yield Fault("name", _wrong_name(network.name))
    count = sum(1 for _ in network.placed())
    if not 1 <= count <= MOST_TASKS:
        yield Fault("tasks", f"a network must have 1 to {MOST_TASKS} tasks, not {count}")
    if not 1 <= network.concurrency <= MOST_TASKS:
        yield Fault("concurrency", f"it must be from 1 to {MOST_TASKS}")
    yield from _seconds("time_limit", network.time_limit)
    if network.result and network.result not in network.flat():
        yield Fault("result", f"there is no task {network.result!r}")
    for name in network.context.keys() & network.flat().keys():
        yield Fault(f"context.{name}", "a task has this name, and its result is stored under it")


def _of_names(network: Network) -> Iterator[Fault]:
    named = [*((place, task.name) for place, task in network.placed())]
    named += [(place, group.name) for place, group in network.groups()]
    counts = Counter(name for _, name in named)
    for place, name in named:
        if not _NAME.fullmatch(name) or name in _RESERVED:
            yield Fault(f"{place}.name", _wrong_name(name))
        elif counts[name] > 1:
            yield Fault(f"{place}.name", f"{name!r} is the name of several tasks or groups")


def _of_limits(place: str, task: Task) -> Iterator[Fault]:
    """Yield the faults of a task that are about it alone."""
    if not task.agent:
        yield Fault(f"{place}.agent", "it needs the id of an agent")
    yield from _of_kind(place, task)
    yield from _of_question(place, task)
    yield from _of_range(f"{place}.retries", task.retries, 0, MOST_RETRIES)
    yield from _of_range(f"{place}.retry_seconds", task.retry_seconds, 0, _LONGEST_RETRY_SECONDS)
    yield from _seconds(f"{place}.time_limit", task.time_limit)
    if len(task.prompt) > _LONGEST_PROMPT:
        yield Fault(f"{place}.prompt", f"it has more than {_LONGEST_PROMPT:,} characters")
    if task.map_over:
        yield from _of_range(f"{place}.map.most", task.map_over.most, 1, MOST_ITEMS)
    if task.loop:
        yield from _of_range(f"{place}.loop.most", task.loop.most, 1, MOST_REPEATS)
    if task.map_over and task.activates:
        yield Fault(f"{place}.activates", "a task that runs for each item of a list cannot activate others")
    yield from _of_condition(f"{place}.when", task.when)
    yield from _of_condition(f"{place}.loop.until", task.loop.until if task.loop else None)
    yield from _of_schema(f"{place}.output_schema", task.output_schema)


def _of_kind(place: str, task: Task) -> Iterator[Fault]:
    """Yield the fields of a task that are for one of another kind: with an agent, a value or a question."""
    names, kind = _OF_QUESTIONS, ""
    if task.ask is not None:
        names, kind = (*_OF_AGENTS, "value"), "ask"
    elif task.value is not None:
        names, kind = (*_OF_AGENTS, *_OF_TRIES, *_OF_QUESTIONS), "value"
    reason = "only a task with `ask` can have this field"
    if kind:
        reason = f"a task with `{kind}` calls no model, so it cannot have this field"
    plain = Task(task.name)
    for name in names:
        if getattr(task, name) != getattr(plain, name):
            yield Fault(f"{place}.{name}", reason)
    if task.value is not None and len(json.dumps(task.value)) > _LONGEST_PROMPT:
        yield Fault(f"{place}.value", f"it has more than {_LONGEST_PROMPT:,} characters")


def _of_question(place: str, task: Task) -> Iterator[Fault]:
    if task.ask is None:
        return
    if not 1 <= len(task.ask.strip()) <= LONGEST_QUESTION:
        yield Fault(f"{place}.ask", f"it must have 1 to {LONGEST_QUESTION:,} characters")
    if len(task.options) > MOST_OPTIONS:
        yield Fault(f"{place}.options", f"it has more than {MOST_OPTIONS} answers to choose from")
    if len({option.strip().casefold() for option in task.options}) < len(task.options):
        yield Fault(f"{place}.options", "two of them are the same")
    for number, option in enumerate(task.options):
        if not 1 <= len(option.strip()) <= LONGEST_OPTION:
            yield Fault(f"{place}.options[{number}]", f"it must have 1 to {LONGEST_OPTION} characters")
    yield from _seconds(f"{place}.timeout", task.timeout, _LONGEST_TIMEOUT_SECONDS)


def _of_range(place: str, value: float, least: int, most: int) -> Iterator[Fault]:
    if not least <= value <= most:
        yield Fault(place, f"it must be from {least} to {most:,}")


def _of_schema(place: str, schema: Mapping[str, Any] | None) -> Iterator[Fault]:
    try:
        if schema is not None:
            check_schema(schema)
    except AppError as error:
        yield Fault(place, error.message)


def _of_relations(place: str, task: Task, tasks: Mapping[str, Task], known: set[str]) -> Iterator[Fault]:
    """Yield the faults of the names that a task has, and of what it is to others."""
    yield from _unknown(f"{place}.depends_on", task.depends_on, known)
    yield from _of_activated(f"{place}.activates", task.activates, tasks)
    depends = tasks[task.name].depends_on
    if task.optional and depends:
        yield Fault(f"{place}.depends_on", "an optional task cannot depend on others: it runs when it is activated")
    if task.optional and task.when is None and not any(task.name in one.activates for one in tasks.values()):
        yield Fault(f"{place}.optional", "no task activates it, so it would never run")
    if task.optional and task.when is not None:
        yield Fault(f"{place}.when", "it is activated by other tasks or by its condition, not by both")
    yield from _of_fallback(place, task, tasks)


def _of_activated(place: str, names: Iterable[str], tasks: Mapping[str, Task]) -> Iterator[Fault]:
    for number, name in enumerate(names):
        if name not in tasks:
            yield Fault(f"{place}[{number}]", f"there is no task {name!r}")
        elif not tasks[name].optional:
            yield Fault(f"{place}[{number}]", f"{name!r} is not optional, so it runs without being activated")


def _of_fallback(place: str, task: Task, tasks: Mapping[str, Task]) -> Iterator[Fault]:
    if (task.on_error is OnError.FALLBACK) is not bool(task.fallback):
        yield Fault(f"{place}.fallback", "`on_error: fallback` and `fallback: TASK` need each other")
    if not task.fallback:
        return
    if task.fallback not in tasks:
        yield Fault(f"{place}.fallback", f"there is no task {task.fallback!r}")
        return
    other = tasks[task.fallback]
    if other.depends_on or other.is_optional or other.loop:
        yield Fault(f"{place}.fallback", f"{other.name!r} must not be optional, have a loop, or depend on other tasks")
    if sum(one.fallback == other.name for one in tasks.values()) > 1:
        yield Fault(f"{place}.fallback", f"{other.name!r} is the fallback of several tasks")
    if task.loop:
        yield Fault(f"{place}.fallback", "a task with a loop cannot have a fallback")


def _of_cycle(network: Network) -> Iterator[Fault]:
    places = {task.name: place for place, task in network.placed()}
    try:
        build(network)
    except Cycle as error:
        yield Fault(f"{places[error.names[0]]}.depends_on", f"these tasks wait for each other: {error}")


def _of_graph(network: Network) -> Iterator[Fault]:
    if found := [*_of_cycle(network)]:
        yield from found
        return
    places, graph = {task.name: (place, task) for place, task in network.placed()}, build(network)
    heads = [name for name, task in graph.tasks.items() if task.loop]
    regions = {name: region(graph.tasks, graph.ancestors, name) for name in heads}
    for name in heads:
        yield from _of_loop(places[name][0], graph, name, regions)
    for name, (place, task) in places.items():
        inside = frozenset[str]().union(*(members for members in regions.values() if name in members))
        for where, path in _references(task):
            yield from _of_reference(f"{place}.{where}", path, graph, name, inside)


def _of_loop(place: str, graph: Graph, name: str, regions: Mapping[str, frozenset[str]]) -> Iterator[Fault]:
    loop = graph.tasks[name].loop
    if loop is None:
        return
    if loop.back_to and loop.back_to not in graph.ancestors[name] | {name}:
        yield Fault(f"{place}.loop.back_to", f"{name!r} does not depend on a task {loop.back_to!r}")
    if references.task_of(loop.until.path) not in regions[name]:
        yield Fault(f"{place}.loop.until", f"it must be about a task of the loop, such as tasks.{name}.output")
    for other, members in regions.items():
        if other != name and members & regions[name]:
            yield Fault(f"{place}.loop", f"its tasks are also those of the loop of {other!r}")


def _references(task: Task) -> Iterator[tuple[str, str]]:
    """Yield the references of a task, with their places in it."""
    yield from (("prompt", path) for path in references.find(task.prompt))
    yield from (("value", path) for path in references.find_in(task.value))
    yield from (("ask", path) for path in references.find(task.ask or ""))
    if task.when:
        yield "when", task.when.path
    if task.map_over:
        yield "map", task.map_over.items
    if task.loop:
        yield "loop.until", task.loop.until.path


def _of_reference(place: str, path: str, graph: Graph, name: str, inside: frozenset[str]) -> Iterator[Fault]:
    """Yield the faults of a reference. inside: the tasks of the loop that its task belongs to; empty without one."""
    if fault := references.fault_of(path):
        yield Fault(place, fault)
        return
    root, *rest = path.split(".")
    if root in ("item", "index") and (graph.tasks[name].map_over is None or not place.endswith(_OF_ITEMS)):
        yield Fault(place, f"{path!r} has a value only in the prompt, value or question of a task with `map`")
    if root == "tasks" and rest[0] not in graph.ancestors[name] and not place.endswith("loop.until"):
        text = f"{name!r} does not depend on it" if rest[0] in graph.tasks else "there is no such task"
        yield Fault(place, f"{path!r} has no value: {text}")
    if root == "previous" and rest[0] not in inside:
        yield Fault(place, f"{path!r} has a value only within a loop that repeats both tasks")


def _unknown(place: str, names: tuple[str, ...], known: set[str]) -> Iterator[Fault]:
    for number, name in enumerate(names):
        if name not in known:
            yield Fault(f"{place}[{number}]", f"there is no task or group {name!r}")


def _seconds(place: str, value: float | None, most: float = _LONGEST_SECONDS) -> Iterator[Fault]:
    if value is not None and not 0 < value <= most:
        yield Fault(place, f"it must be a number of seconds up to {most:,.0f}")


def _wrong_name(name: str) -> str:
    reserved = ", ".join(sorted(_RESERVED))
    return f"{name!r} is not a valid name: a letter, then up to 59 letters, digits, `-` and `_`, except {reserved}"


def _of_condition(place: str, condition: Condition | None) -> Iterator[Fault]:
    if condition is None:
        return
    if condition.operator is Operator.IN and not isinstance(condition.value, list):
        yield Fault(place, "`in` needs a list of values")
    if condition.operator is Operator.EXISTS and not isinstance(condition.value, bool):
        yield Fault(place, "`exists` needs true or false")
