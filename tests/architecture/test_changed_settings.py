"""Settings that tests and benchmarks of whole installations change are listed, each with its reason."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from komand.settings import base
from tests.support import changed_settings as changed

ROOT = Path(__file__).resolve().parents[2]
PLACES = [
    "benchmarks",
    "tests/chaos",
    "tests/conformance",
    "tests/fuzz",
    "tests/installed",
    "tests/support",
    "tests/upgrade",
]
# Addresses of test services and switches of the tests themselves; an installation does not know them.
OWN_PREFIXES = ("KOMAND_TEST", "KOMAND_CHAOS", "KOMAND_CUT", "KOMAND_FUZZ")


def modules() -> Iterator[ast.Module]:
    files = [ROOT / "tests/conftest.py", *(file for place in PLACES for file in sorted((ROOT / place).rglob("*.py")))]
    for file in files:
        if file.name != "changed_settings.py":
            yield ast.parse(file.read_text())


def variables(tree: ast.Module) -> Iterator[str]:
    """Yield the environment variables that are given to a process: keys of a dict and keyword arguments."""
    for node in ast.walk(tree):
        keys = node.keys if isinstance(node, ast.Dict) else []
        yield from (key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str))
        if isinstance(node, ast.Call):
            yield from (keyword.arg for keyword in node.keywords if keyword.arg)


def assigned(tree: ast.Module) -> Iterator[str]:
    """Yield the attributes with upper-case names that are assigned, or replaced by monkeypatch."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            yield from (target.attr for target in node.targets if isinstance(target, ast.Attribute))
        is_patch = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr"
        if is_patch and isinstance(node, ast.Call) and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            yield str(node.args[1].value)


GIVEN = {name for tree in modules() for name in variables(tree) if name.startswith("KOMAND_")}
ASSIGNED = {name for tree in modules() for name in assigned(tree) if name.isupper()}


@pytest.mark.parametrize(
    ("found", "listed"),
    [
        ({name for name in GIVEN if not name.startswith(OWN_PREFIXES)}, {*changed.INSTALLATIONS} - {*changed.RATES}),
        ({name for name in ASSIGNED if name.startswith("KOMAND_")}, {*changed.ONE_PROCESS}),
        ({name for name in ASSIGNED if not name.startswith("KOMAND_")}, {*changed.CONSTANTS}),
    ],
    ids=["installations", "settings in one process", "constants in one process"],
)
def test_what_is_changed_is_listed(found: set[str], listed: set[str]) -> None:
    assert found == listed


def test_the_settings_exist() -> None:
    assert not [name for name in changed.ONE_PROCESS if not hasattr(base, name)]
    settings = "".join(file.read_text() for file in (ROOT / "komand/settings").glob("*.py"))
    processes = (ROOT / "komand/supervisor").rglob("*.py")
    known = settings + "".join(file.read_text() for file in processes)
    assert not [name for name in changed.INSTALLATIONS if name not in known]


def test_each_has_a_reason() -> None:
    for listed in (changed.INSTALLATIONS, changed.ONE_PROCESS, changed.CONSTANTS):
        assert all(reason.endswith(".") and len(reason) > 5 for reason in listed.values())
