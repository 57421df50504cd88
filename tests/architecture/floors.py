"""The floors of each app: its folders and root modules, each above all of the app that it imports."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping

from tests.architecture.source import PACKAGES


def rows(trees: Mapping[str, ast.Module]) -> Iterator[tuple[str, str]]:
    """Yield for each app its number of floors, of imports that no order of its parts explains, and of parts."""
    for app in PACKAGES:
        imports = imports_of(app, trees)
        arrows_up = [(part, other) for part in imports for other in imports[part] if part in reach(other, imports)]
        ordered = {part: imports[part] - {other for at, other in arrows_up if at == part} for part in imports}
        floors = max((height(part, ordered) for part in ordered), default=0)
        yield f"floors of {app} · arrows back up · folders and modules", f"{floors} · {len(arrows_up)} · {len(imports)}"


def imports_of(app: str, trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Return for each part of an app the parts that it imports."""
    parts = {path.split("/")[1].removesuffix(".py") for path in trees if path.startswith(f"{app}/")} - {"__init__"}
    found: dict[str, set[str]] = defaultdict(set)
    for path, tree in trees.items():
        own = path.split("/")[1].removesuffix(".py")
        if path.startswith(f"{app}/") and own in parts:
            found[own] |= {name for name in _imported(app, tree) if name in parts and name != own}
    return dict(found)


def _imported(app: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == app:
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{app}."):
            yield (node.module or "").split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith(f"{app}."))


def reach(part: str, imports: Mapping[str, set[str]]) -> set[str]:
    """Return the parts that a part imports directly or indirectly."""
    seen, open_ones = set[str](), [part]
    while open_ones:
        for other in imports.get(open_ones.pop(), set()) - seen:
            seen.add(other)
            open_ones.append(other)
    return seen


def height(part: str, imports: Mapping[str, set[str]]) -> int:
    return 1 + max((height(other, imports) for other in imports[part]), default=0)
