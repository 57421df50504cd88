"""Sizes of files and functions, meaningful names, imports at the top."""

import ast
import re

from tests.architecture.exemptions import problems
from tests.architecture.figures import length_of
from tests.architecture.source import functions, modules

LONGEST_FILE, LONGEST_FUNCTION = 350, 60
# The length that 95 of 100 functions keep to. It may only go down.
USUAL_FUNCTION = 18
# Lines of a module that turns events into the frames of a protocol. Those of some protocols may only go down.
LONGEST_PROJECTION = 125
LONGER_PROJECTIONS = {"ag_ui": 330, "agent_messages": 268, "chat": 350, "openai": 249, "threads": 205, "webchat": 144}
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers", "base_utils"}
# Django calls these when its registry is ready, not before; manage.py must not load Django for `up`.
MAY_IMPORT_INSIDE = {"ready"}


def test_no_file_is_long() -> None:
    long = {str(module.path): module.text.count("\n") for module in modules() if module.text.count("\n") > LONGEST_FILE}
    assert not long


def test_projections_are_short() -> None:
    lines: dict[str, int] = {}
    for module in modules("sessions_app/surfaces"):
        if module.path.stem.startswith("projection") or module.path.stem == "chat_frames":
            surface = module.path.parent.name
            lines[surface] = max(lines.get(surface, 0), module.text.count("\n"))
    limits = {surface: LONGER_PROJECTIONS.get(surface, LONGEST_PROJECTION) for surface in lines}
    assert {"a2a", "zeroclaw"} <= lines.keys()
    assert not [surface for surface, count in lines.items() if count > limits[surface]], lines


def test_no_function_is_long() -> None:
    long = {
        f"{module.path}:{function.name}": length_of(function)
        for module in modules()
        for function in functions(module.tree)
        if length_of(function) > LONGEST_FUNCTION
    }
    assert not long


def test_most_functions_are_short() -> None:
    """Require that 95 of 100 functions keep to USUAL_FUNCTION."""
    lengths = [length_of(function) for module in modules() for function in functions(module.tree)]
    longer = sum(length > USUAL_FUNCTION for length in lengths)
    most = len(lengths) - int(0.95 * len(lengths)) - 1
    assert longer <= most, (
        f"{longer} functions have more than {USUAL_FUNCTION} lines; {most} may: shorten those of your change"
    )


def test_every_module_has_a_docstring() -> None:
    """Require a docstring of every module but `apps` and empty packages."""
    silent = [
        str(module.path)
        for module in modules()
        if module.text.strip() and module.path.name != "apps.py" and not ast.get_docstring(module.tree)
    ]
    assert not silent


def test_no_module_has_a_vague_name() -> None:
    assert not [module.name for module in modules() if VAGUE & set(module.name.split("."))]


def test_imports_stand_at_the_top() -> None:
    inside = [
        (function.name, f"{module.path}:{node.lineno}")
        for module in modules()
        for function in functions(module.tree)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert not problems(inside, MAY_IMPORT_INSIDE)


def test_locks_of_rows_admit_foreign_keys() -> None:
    """Require `no_key`: without it a commit on PostgreSQL waits for the rows that its foreign keys name."""
    locks = [
        (f"{module.path}:{node.lineno}", [keyword.arg for keyword in node.keywords])
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "select_for_update"
    ]
    assert locks and not [place for place, names in locks if "no_key" not in names]


def test_no_code_is_marked_as_unfinished() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|NotImplementedError\(\)")
    assert not [str(module.path) for module in modules() if marks.search(module.text)]


def test_no_secret_is_compared_with_the_equals_sign() -> None:
    """Require constant-time comparison of secrets: `==` takes longer the more characters are equal."""
    telling = re.compile(r"(signature|secret|password|token|mac)s?$")
    found = []
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
                sides = [node.left, *node.comparators]
                names = [side.attr if isinstance(side, ast.Attribute) else getattr(side, "id", "") for side in sides]
                if sum(bool(telling.search(name)) for name in names) >= 2:
                    found.append(f"{module.path}:{node.lineno}")
    assert not found
