"""A setting has the same value in every process, and each process has the settings that it reads."""

import ast
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.source import ROOT, modules
from tests.architecture.test_worker_imports import WEB, WORKER

# Of pages alone; those of operators are built from values of a library that workers do not load.
OF_PAGES = {"KOMAND_ADMIN_PREFIX", "KOMAND_ADMIN_CSP", "KOMAND_PERMISSIONS_POLICY"}
SHOW = """
import json, sys
from django.conf import settings
own = {name: repr(getattr(settings, name)) for name in dir(settings) if name.startswith("KOMAND_")}
print(json.dumps({"settings": own, "all": dir(settings), "modules": sorted(sys.modules)}))
"""


@cache
def process(name: str, folder: Path) -> dict[str, Any]:
    """Return the settings of a kind of process with nothing set but its data folder, and the modules that it loads."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": f"komand.settings.{name}", "KOMAND_DATA_DIR": str(folder)}
    environment.pop("DATABASE_URL", None)
    program = {"web": WEB, "worker": WORKER}[name] + SHOW
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("installation")


def test_a_setting_has_the_same_value_in_every_process(folder: Path) -> None:
    web, worker = process("web", folder)["settings"], process("worker", folder)["settings"]
    assert web.keys() - worker.keys() == OF_PAGES
    assert {name: web[name] for name in worker} == worker


@pytest.mark.parametrize("name", ["web", "worker"])
def test_each_process_has_the_settings_that_it_reads(name: str, folder: Path) -> None:
    found = process(name, folder)
    loaded = set(found["modules"])
    read = {
        (str(module.path), node.attr)
        for module in modules()
        if module.name in loaded
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "settings"
        if node.attr.isupper()
    }
    assert len(read) > 50
    assert not {(path, setting) for path, setting in read if setting not in found["all"]}


def test_no_setting_is_read_with_a_default() -> None:
    """Require `settings.X`: a default hides that a process lacks the setting."""
    found = [
        f"{module.path}:{node.lineno}"
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr")
        if getattr(node.args[0], "id", "") == "settings" and (len(node.args) == 3 or node.func.id == "hasattr")  # type: ignore[attr-defined]
    ]
    assert not found
