"""The picture of a network as Mermaid text. Pure."""

from collections.abc import Iterator, Mapping

from agents_app.networks.definition import Network, OnError, Task
from agents_app.networks.outcomes import TaskResult, TaskStatus
from agents_app.networks.references import task_of

_COLORS = {
    TaskStatus.WAITING: "fill:#f3f4f6,stroke:#9ca3af,color:#374151",
    TaskStatus.RUNNING: "fill:#dbeafe,stroke:#2563eb,color:#1e3a8a",
    TaskStatus.SUCCEEDED: "fill:#dcfce7,stroke:#16a34a,color:#14532d",
    TaskStatus.FAILED: "fill:#fee2e2,stroke:#dc2626,color:#7f1d1d",
    TaskStatus.SKIPPED: "fill:#ffffff,stroke:#d1d5db,color:#6b7280",
}


def to_mermaid(network: Network, results: Mapping[str, TaskResult] | None = None) -> str:
    """Return the network as a flowchart; with the results of a run, coloured by the state of each task.

    Dotted arrows lead to optional tasks and to fallbacks, and back to the beginning of a loop.
    """
    tasks = network.flat()
    ids = {name: f"t{number}" for number, name in enumerate(tasks)}
    grouped = {task.name for _, group in network.groups() for task in group.tasks}
    lines = ["flowchart TD", *_groups(network, ids)]
    lines += [f"  {_node(ids[name], task)}" for name, task in tasks.items() if name not in grouped]
    for name, task in tasks.items():
        lines += [f"  {ids[source]} {arrow} {ids[name]}" for source, arrow in _arrows_to(task, tasks)]
        lines += [f"  {ids[name]} {arrow} {ids.get(target, ids[name])}" for target, arrow in _arrows_from(task, tasks)]
    if results:
        lines += [f"  classDef {status} {color}" for status, color in _COLORS.items()]
        lines += [f"  class {ids[name]} {result.status}" for name, result in results.items() if name in ids]
    return "\n".join(lines) + "\n"


def _groups(network: Network, ids: Mapping[str, str]) -> Iterator[str]:
    for number, (_, group) in enumerate(network.groups()):
        yield f'  subgraph g{number}["{_escaped(group.name)}"]'
        yield from (f"    {_node(ids[task.name], task)}" for task in group.tasks)
        yield "  end"


def _arrows_to(task: Task, tasks: Mapping[str, Task]) -> Iterator[tuple[str, str]]:
    yield from ((name, "-->") for name in task.depends_on if name in tasks)
    yield from ((other.name, "-. activates .->") for other in tasks.values() if task.name in other.activates)
    if task.when and task_of(task.when.path) in tasks:
        yield task_of(task.when.path), f"-. {_escaped(task.when.operator.replace('_', ' '))} .->"
    if task.map_over and (source := task_of(task.map_over.items)) in tasks and source not in task.depends_on:
        yield source, "-- each item -->"


def _arrows_from(task: Task, tasks: Mapping[str, Task]) -> Iterator[tuple[str, str]]:
    if task.on_error is OnError.FALLBACK and task.fallback in tasks:
        yield task.fallback, "-. on error .->"
    if task.loop:
        yield task.loop.back_to or task.name, f"-. up to {task.loop.most} times .->"


def _node(node_id: str, task: Task) -> str:
    label = f"{_escaped(task.name)}<br><small>{_escaped(task.performer)}</small>"
    return f'{node_id}(["{label}"])' if task.is_optional else f'{node_id}["{label}"]'


def _escaped(text: str) -> str:
    """Return a text that is shown as it is: every other character is an entity of Mermaid."""
    return "".join(one if one.isalnum() or one in " _-." else f"#{ord(one)};" for one in text)
