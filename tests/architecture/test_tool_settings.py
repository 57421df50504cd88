"""The exemptions in pyproject.toml name what exists and are needed: modules, rules of the linter, markers."""

import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, modules

TOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
CONTRACTS = TOOLS["importlinter"]["contracts"]
RUFF = TOOLS["ruff"]["lint"]
RULES = [(".", code) for code in RUFF["ignore"]] + [
    (folder.removesuffix("/**"), code) for folder, codes in RUFF["per-file-ignores"].items() for code in codes
]


def exists(name: str) -> bool:
    """Return whether a module can be imported. Kombu replaces its entry in `sys.modules` by one without a spec."""
    return name in sys.modules or find_spec(name) is not None


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract["name"])
def test_a_contract_names_what_exists(contract: dict) -> None:
    """Check the names that import-linter accepts although nothing has them: ignored layers, packages of others."""
    ignored = [
        f"{container}.{name}"
        for container in contract.get("containers", [])
        for name in contract.get("exhaustive_ignores", [])
    ]
    assert not [name for name in [*ignored, *contract.get("forbidden_modules", [])] if not exists(name)]
    assert not [layer for layer in contract.get("layers", []) if "(" in layer], "a layer in parentheses may be missing"


@pytest.mark.parametrize("override", TOOLS["mypy"]["overrides"], ids=lambda override: override["module"][0])
def test_an_override_of_types_names_what_exists(override: dict) -> None:
    assert not [name for name in override["module"] if not exists(name.removesuffix(".*"))]


@pytest.mark.parametrize(("folder", "code"), RULES)
def test_a_rule_of_the_linter_that_is_off_would_find_something(folder: str, code: str) -> None:
    ruff = Path(sys.executable).with_name("ruff")
    without = ["--config", "lint.ignore = []", "--config", "lint.per-file-ignores = {}"]
    found = subprocess.run([ruff, "check", "-q", *without, "--select", code, folder], cwd=ROOT, capture_output=True)
    assert found.returncode == 1, found.stderr


def test_each_marker_marks_a_test() -> None:
    declared = {marker.partition(":")[0] for marker in TOOLS["pytest"]["ini_options"]["markers"]}
    used = {name for module in modules("tests") for name in re.findall(r"\bmark\.(\w+)", module.text)}
    assert not declared - used
