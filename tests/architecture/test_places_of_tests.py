"""No test waits for time to pass without a reason."""

import ast
import re

import pytest

from tests.architecture.source import Module, modules

FROM_IMPORT = re.compile(r"^from (time|asyncio) import .*\bsleep\b", re.MULTILINE)


def sleeps(module: Module) -> list[int]:
    """Return the lines that wait for time to pass. `asyncio.sleep(0)` only lets other tasks run."""
    return [
        node.lineno
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("time.sleep", "asyncio.sleep")
        and not (node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)
    ]


def has_reason(module: Module, line: int) -> bool:
    """Return whether a comment stands in the line or above it."""
    above, found = module.text.split("\n")[line - 2 : line]
    return "#" in found or above.lstrip().startswith("#")


@pytest.mark.parametrize("folder", ["unit", "integration"])
def test_no_test_sleeps_without_a_reason(folder: str) -> None:
    """Most tests can wait for a condition instead (docs/testing.md)."""
    files = modules(f"tests/{folder}")
    assert not [str(module.path) for module in files if FROM_IMPORT.search(module.text)]
    assert not [f"{module.path}:{line}" for module in files for line in sleeps(module) if not has_reason(module, line)]
