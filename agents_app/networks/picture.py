"""The picture of a network as SVG: tasks in columns, each to the right of those it waits for. Pure."""

from collections.abc import Iterator, Mapping
from html import escape

from agents_app.networks.definition import Network, Task
from agents_app.networks.graph import Graph, build
from agents_app.networks.outcomes import TaskResult, TaskStatus

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 170, 44, 70, 22, 12
_MOST_LETTERS = 20
_COLORS = {
    TaskStatus.WAITING: "#9ca3af",
    TaskStatus.RUNNING: "#2563eb",
    TaskStatus.SUCCEEDED: "#16a34a",
    TaskStatus.FAILED: "#dc2626",
    TaskStatus.SKIPPED: "#d1d5db",
}


def to_svg(network: Network, results: Mapping[str, TaskResult] | None = None) -> str:
    """Return the network as an SVG element; with the results of a run, each task in the colour of its state.

    Dashed frames are optional tasks and fallbacks. It has no styles or scripts, so that any page may contain it.
    """
    graph = build(network)
    places = _places(graph)
    corners = [_corner(place) for place in places.values()]
    width = max(x for x, _ in corners) + _WIDTH + _MARGIN
    height = max(y for _, y in corners) + _HEIGHT + _MARGIN
    drawn = [*_arrows(graph, places), *_boxes(graph, places, results or {})]
    title = escape(f"The tasks of the network {network.name}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{title}" font-family="sans-serif" font-size="13"><title>{title}</title>'
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M0 0 L8 4 L0 8 z" fill="#6b7280"/></marker></defs>{"".join(drawn)}</svg>'
    )


def _places(graph: Graph) -> dict[str, tuple[int, int]]:
    """Return column and row of each task."""
    columns: dict[str, int] = {}
    filled: dict[int, int] = {}
    places = {}
    for block in graph.blocks:
        for name in block.tasks:
            columns[name] = 1 + max((columns[parent] for parent in graph.parents[name]), default=-1)
    for name in graph.tasks:
        row = filled.get(columns[name], 0)
        filled[columns[name]] = row + 1
        places[name] = (columns[name], row)
    return places


def _corner(place: tuple[int, int]) -> tuple[int, int]:
    column, row = place
    return _MARGIN + column * (_WIDTH + _GAP_X), _MARGIN + row * (_HEIGHT + _GAP_Y)


def _arrows(graph: Graph, places: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    for name, parents in graph.parents.items():
        for parent in parents:
            (x1, y1), (x2, y2) = _corner(places[parent]), _corner(places[name])
            x1, y1, y2 = x1 + _WIDTH, y1 + _HEIGHT // 2, y2 + _HEIGHT // 2
            is_dashed = graph.tasks[name].is_optional or name in graph.served
            dashes = ' stroke-dasharray="5 4"' if is_dashed else ""
            middle = (x1 + x2) // 2
            path = f"M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}"
            yield f'<path d="{path}" fill="none" stroke="#6b7280"{dashes} marker-end="url(#arrow)"/>'


def _notes(task: Task, result: TaskResult | None) -> Iterator[str]:
    yield task.performer
    if task.map_over:
        yield "each item"
    if task.loop:
        yield f"up to {task.loop.most} times"
    if result:
        yield result.status.value


def _boxes(graph: Graph, places: Mapping[str, tuple[int, int]], results: Mapping[str, TaskResult]) -> Iterator[str]:
    for name, task in graph.tasks.items():
        x, y = _corner(places[name])
        result = results.get(name)
        color = _COLORS[result.status] if result else "#6b7280"
        dashes = ' stroke-dasharray="5 4"' if task.is_optional or name in graph.served else ""
        notes = ", ".join(_notes(task, result))
        hint = escape((result.error or result.reason if result else "") or notes)
        yield (
            f"<g><title>{hint}</title>"
            f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="8" fill="{color}" fill-opacity="0.12" '
            f'stroke="{color}" stroke-width="2"{dashes}/>'
            f'<text x="{x + 10}" y="{y + 18}" fill="currentColor">{escape(_short(name))}</text>'
            f'<text x="{x + 10}" y="{y + 35}" fill="currentColor" font-size="10" opacity="0.7">'
            f"{escape(_short(notes, 30))}</text></g>"
        )


def _short(text: str, most: int = _MOST_LETTERS) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
