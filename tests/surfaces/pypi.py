"""Packages of PyPI for tests with real clients, installed into virtual environments of their own.

Their requirements may contradict ours. Scripts run with that environment's Python.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_INSTALL_SECONDS = 200


def foreign() -> Path:
    """Return the Python of the environment of `requirements-foreign.lock`. Skips, saying so, where there is none."""
    python = Path(sys.prefix).with_name(".venv-foreign") / "bin/python"
    if not python.exists():
        pytest.skip("NOT TESTED: `make foreign` makes the virtualenv of the clients and frameworks")
    return python


def install(folder: Path, *packages: str) -> Path:
    """Return the Python of an environment with these packages. Skips, saying so, where there is no registry."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=_INSTALL_SECONDS)
    python = folder / "bin" / "python"
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_SECONDS)
        problem = done.stderr[-300:] if done.returncode else ""
    except subprocess.TimeoutExpired:
        problem = f"the registry was not done after {_INSTALL_SECONDS} s"
    if problem:
        pytest.skip(f"NOT TESTED: {', '.join(packages)} could not be installed: {problem}")
    return python


def run_script(python: Path, script: Path, request: dict[str, Any], *, seconds: float = 90) -> Any:
    """Run a script that reads its request as JSON from its first argument; returns the JSON of its last line."""
    command = [str(python), str(script), json.dumps(request)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, f"{done.stdout[-500:]}\n{done.stderr[-3000:]}"
    return json.loads(done.stdout.splitlines()[-1])
