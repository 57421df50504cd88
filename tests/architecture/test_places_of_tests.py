"""Tests stand where the product stands, under its names; no test waits for time to pass without a reason."""

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.source import PACKAGES, ROOT, Module, modules

GERUND = re.compile(r"test_(\w+_)?[a-z]+ing")
FROM_IMPORT = re.compile(r"^from (time|asyncio) import .*\bsleep\b", re.MULTILINE)
# Folders of unit tests that are not of the product.
BESIDE = {"benchmarks": "benchmarks", "fakes": "tests/fakes"}


def files_of(folder: str) -> list[Module]:
    return [module for module in modules(f"tests/{folder}") if module.path.name.startswith("test_")]


def place_of(path: Path) -> Path:
    """Return the folder of the product that a test file stands for."""
    first, *others = path.parent.parts[2:]
    return ROOT.joinpath(BESIDE.get(first, first), *others)


def subjects(place: Path) -> set[str]:
    """Return the names of the modules and packages of a folder."""
    found = {file.stem.strip("_") for file in place.glob("*.py") if file.name != "__init__.py"}
    return found | {file.parent.name for file in place.glob("*/__init__.py")}


def is_about(path: Path) -> bool:
    """Return whether the file is named after a module or package of its folder, alone or with more words behind it."""
    name = path.stem.removeprefix("test_")
    return any(name == subject or name.startswith(f"{subject}_") for subject in subjects(place_of(path)))


@pytest.mark.parametrize("folder", ["unit", "integration"])
def test_test_files_stand_in_folders_of_the_product(folder: str) -> None:
    places = {"integration": set(PACKAGES), "unit": {*PACKAGES, *BESIDE}}[folder]
    assert not [
        str(module.path)
        for module in files_of(folder)
        if module.path.parts[2] not in places or not (place_of(module.path) / "__init__.py").exists()
    ]


def test_unit_tests_are_named_after_modules() -> None:
    assert not [str(module.path) for module in files_of("unit") if not is_about(module.path)]


def test_unit_tests_use_no_database() -> None:
    assert not [str(module.path) for module in files_of("unit") if "django_db" in module.text]


def test_no_test_of_a_flow_is_named_by_a_gerund() -> None:
    """Only a module of the product may have such a name."""
    files = [module.path for module in files_of("integration")]
    assert not [str(path) for path in files if GERUND.fullmatch(path.stem) and not is_about(path)]


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
