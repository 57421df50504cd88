"""The graph of a network: which task comes after which, in which order they are looked at. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from agents_app.networks.definition import Network, OnError, Task
from agents_app.networks.references import task_of


@dataclass(frozen=True)
class Block:
    """Tasks that are looked at together: one, or those of a loop. loop: the task that has the loop, or empty.

    tasks: each after those it depends on.
    """

    tasks: tuple[str, ...]
    loop: str = ""


@dataclass(frozen=True)
class Graph:
    """The relations of a network's tasks.

    parents: tasks that have to end before.
    ancestors: all tasks that have to end before, transitively.
    activators: tasks that may activate an optional one by their answer.
    served: task that each fallback stands for.
    blocks: in topological order.
    """

    tasks: Mapping[str, Task]
    parents: Mapping[str, tuple[str, ...]]
    ancestors: Mapping[str, frozenset[str]]
    activators: Mapping[str, tuple[str, ...]]
    served: Mapping[str, str]
    blocks: tuple[Block, ...]

    def _outside(self, name: str) -> tuple[str, ...]:
        """Return the parents of a task that belong to another block."""
        inside = self.block_of(name).tasks
        return tuple(parent for parent in self.parents[name] if parent not in inside)

    def block_of(self, name: str) -> Block:
        return next(block for block in self.blocks if name in block.tasks)

    def last(self) -> tuple[str, ...]:
        """Return the tasks after which nothing comes, without fallbacks, in declared order."""
        before = {name for child, names in self.parents.items() if child not in self.served for name in names}
        # A task that comes after a part of a loop comes after all of it.
        before |= {self.block_of(name).loop for child in self.tasks for name in self._outside(child)}
        return tuple(name for name in self.tasks if name not in before and name not in self.served)


class Cycle(ValueError):
    """Tasks that wait for each other. names: the tasks of the cycle, the first one again at the end."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        super().__init__(" → ".join(self.names))


def build(network: Network) -> Graph:
    """Return the graph of a network. Unknown names are left out. Raises Cycle."""
    tasks = network.flat()
    served = {t.fallback: t.name for t in tasks.values() if t.on_error is OnError.FALLBACK and t.fallback in tasks}
    activators = {
        name: tuple(other.name for other in tasks.values() if name in other.activates)
        for name, task in tasks.items()
        if task.is_optional
    }
    parents = {name: _parents(task, tasks, activators.get(name, ()), served) for name, task in tasks.items()}
    order = _sorted({name: parents[name] for name in tasks})
    ancestors: dict[str, frozenset[str]] = {}
    for name in order:
        ancestors[name] = frozenset(parents[name]).union(*(ancestors[parent] for parent in parents[name]))
    return Graph(tasks, parents, ancestors, activators, served, _blocks(tasks, parents, ancestors, order))


def region(tasks: Mapping[str, Task], ancestors: Mapping[str, frozenset[str]], name: str) -> frozenset[str]:
    """Return the tasks that the loop of a task repeats, itself included."""
    loop = tasks[name].loop
    first = loop.back_to if loop and loop.back_to in tasks else name
    between = (one for one in ancestors[name] if first in ancestors[one])
    return frozenset((name, first, *between))


def _parents(
    task: Task, tasks: Mapping[str, Task], activators: Iterable[str], served: Mapping[str, str]
) -> tuple[str, ...]:
    names = [*task.depends_on, *activators]
    if task.when and (of := task_of(task.when.path)):
        names.append(of)
    if task.map_over and (of := task_of(task.map_over.items)):
        names.append(of)
    # A fallback's result stands for that of the task: who needs the one has to wait for the other.
    for name in list(names):
        while name in tasks and tasks[name].on_error is OnError.FALLBACK and tasks[name].fallback not in names:
            name = tasks[name].fallback
            names.append(name)
    if task.name in served:
        names.append(served[task.name])
    return tuple(name for name in dict.fromkeys(names) if name in tasks)


def _loops(tasks: Mapping[str, Task], ancestors: Mapping[str, frozenset[str]]) -> dict[str, str]:
    """Return for each task the one that repeats it; itself if none does."""
    loop_of = {name: name for name in tasks}
    for name, task in tasks.items():
        if task.loop:
            loop_of |= dict.fromkeys(region(tasks, ancestors, name), name)
    return loop_of


def _blocks(
    tasks: Mapping[str, Task],
    parents: Mapping[str, tuple[str, ...]],
    ancestors: Mapping[str, frozenset[str]],
    order: Iterable[str],
) -> tuple[Block, ...]:
    loop_of = _loops(tasks, ancestors)
    needed: dict[str, list[str]] = {}
    for name in order:
        outside = [loop_of[parent] for parent in parents[name] if loop_of[parent] != loop_of[name]]
        needed.setdefault(loop_of[name], []).extend(outside)
    place = {name: number for number, name in enumerate(order)}
    found = []
    for head in _sorted(needed):
        members = sorted((name for name in tasks if loop_of[name] == head), key=place.__getitem__)
        found.append(Block(tuple(members), head if tasks[head].loop else ""))
    return tuple(found)


def _sorted(needed: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    try:
        return tuple(TopologicalSorter(needed).static_order())
    except CycleError as error:
        raise Cycle(error.args[1]) from None
