"""The imports between the modules of the product, and the floors of a package: its rooms in the order of their imports.

A room is a folder of a package, or a module beside its folders.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import PurePath

Graph = dict[str, set[str]]  # what each one imports


def imports_of_modules(trees: Mapping[str, ast.Module]) -> Graph:
    """Return the modules that each module imports, also in functions and for types alone. trees: by path."""
    named = {_name_of(path): tree for path, tree in trees.items()}
    found: Graph = {}
    for name, tree in named.items():
        targets = (_known(target, named) for target in _targets(tree))
        found[name] = {target for target in targets if target and target != name}
    return found


def imports_of_rooms(imports: Graph, package: str) -> Graph:
    """Return the rooms that each room of a package imports."""
    found: Graph = {}
    for name, targets in imports.items():
        if room := _room(name, package):
            reached = {_room(target, package) for target in targets}
            found[room] = found.get(room, set()) | (reached - {"", room})
    return found


def circles(graph: Graph) -> list[list[str]]:
    """Return the groups of two or more that all reach each other."""
    reached = {name: _reach(graph, name) for name in graph}
    groups = {tuple(sorted(other for other in found if name in reached[other])) for name, found in reached.items()}
    return sorted(list(group) for group in groups if len(group) > 1)


def floors(graph: Graph) -> list[list[str]]:
    """Return the rooms by floors, from the top: each imports from floors below alone. A circle is on one floor."""
    together = {name: circle for circle in circles(graph) for name in circle}
    levels: dict[str, int] = {}

    def level(name: str) -> int:
        if name not in levels:
            group = together.get(name, [name])
            below = {target for one in group for target in graph[one]} - set(group)
            levels.update(dict.fromkeys(group, 1 + max(map(level, below), default=-1)))
        return levels[name]

    for name in graph:
        level(name)
    return [sorted(one for one in levels if levels[one] == at) for at in sorted(set(levels.values()), reverse=True)]


def _name_of(path: str) -> str:
    return ".".join(PurePath(path).with_suffix("").parts).removesuffix(".__init__")


def _targets(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _known(name: str, modules: Mapping[str, ast.Module]) -> str:
    """Return the module that a dotted name is or lies in; empty for those of others."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def _room(name: str, package: str) -> str:
    """Return the room of a module, empty for the package itself and modules of others."""
    return name.removeprefix(f"{package}.").split(".")[0] if name.startswith(f"{package}.") else ""


def _reach(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found
