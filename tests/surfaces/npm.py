"""Packages of the npm registry for tests with the real clients, installed into temporary folders."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

_INSTALL_SECONDS = 170


def install(folder: Path, *packages: str) -> Path:
    """The `node_modules` with these packages. Skips, saying so, where there is no Node or no registry."""
    if not shutil.which("npm") or not shutil.which("node"):
        pytest.skip("NOT TESTED: node and npm are not installed here")
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *packages]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_INSTALL_SECONDS)
    if done.returncode:
        pytest.skip(f"NOT TESTED: {', '.join(packages)} could not be installed: {done.stderr[-300:]}")
    return folder / "node_modules"


def run_script(script: Path, modules: Path, request: dict[str, Any], seconds: float = 60) -> Any:
    """Run a script that reads its request as JSON from its first argument; returns the JSON of its last line."""
    environment = {**os.environ, "NODE_PATH": str(modules)}
    done = subprocess.run(
        ["node", str(script), json.dumps(request)], env=environment, capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return json.loads(done.stdout.strip().splitlines()[-1])
