"""The project's own code as syntax trees, read once."""

import ast
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
APPS = ("audit_app", "tools_app", "agents_app", "sessions_app")  # from the bottom up
PACKAGES = (*APPS, "komand")


@dataclass(frozen=True)
class Module:
    """name: dotted; path: below the project's root."""

    name: str
    path: Path
    text: str
    tree: ast.Module


def modules(*folders: str) -> tuple[Module, ...]:
    """Return every module below the folders but migrations; of the product when none is given."""
    return tuple(module for folder in folders or PACKAGES for module in _modules_in(folder))


@cache
def _modules_in(folder: str) -> tuple[Module, ...]:
    gc.disable()  # millions of syntax nodes are kept: looking for garbage among them takes longer than to parse
    found = []
    for file in sorted((ROOT / folder).rglob("*.py")):
        if "migrations" not in file.relative_to(ROOT).parts:
            path = file.relative_to(ROOT)
            text = file.read_text()
            found.append(Module(".".join(path.with_suffix("").parts), path, text, ast.parse(text)))
    gc.freeze()
    gc.enable()
    return tuple(found)


Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST) -> Iterator[Function]:
    """Yield every function and method of a module, nested ones too."""
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node
