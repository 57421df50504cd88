"""Packages of the npm registry for tests with the real clients, installed into temporary folders."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_INSTALL_SECONDS = 100  # less than any test may take


def install(folder: Path, *packages: str, seconds: float = _INSTALL_SECONDS) -> Path:
    """The `node_modules` with these packages. Skips, saying so, where there is no Node or no registry."""
    if not shutil.which("npm") or not shutil.which("node"):
        pytest.skip("NOT TESTED: node and npm are not installed here")
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefer-offline", "--prefix", str(folder), *packages]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=seconds)
        problem = done.stderr[-300:] if done.returncode else ""
    except subprocess.TimeoutExpired:
        problem = f"the registry was not done after {seconds:g} s"
    if problem:
        pytest.skip(f"NOT TESTED: {', '.join(packages)} could not be installed: {problem}")
    return folder / "node_modules"


def discard(folder: Path) -> None:
    """Delete a folder of packages without waiting: tens of thousands of files take minutes on a slow disk."""
    # The shell ends at once, and the deletion outlives the test run.
    subprocess.run(["sh", "-c", 'rm -rf "$0" &', str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextmanager
def serve(folder: Path, script: str, *arguments: str) -> Iterator[int]:
    """Run a server's script of this folder, beside its packages, until the block ends. Yields its port.

    The script gets the port and the arguments, writes the line `ready`, and ends when its standard input does.
    """
    shutil.copy(Path(__file__).with_name(script), folder)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = ["node", script, str(port), *arguments]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout and node.stdin
        try:
            assert any(line.strip() == "ready" for line in node.stdout)
            yield port
        finally:
            node.stdin.close()


def run_script(
    script: Path,
    modules: Path,
    request: dict[str, Any],
    *,
    meanwhile: Callable[[], None] | None = None,
    seconds: float = 90,
) -> Any:
    """Run a script that reads its request as JSON from its first argument; returns the JSON of its last line.

    meanwhile: done when the script writes the line `now`, which it must.
    """
    environment = {**os.environ, "NODE_PATH": str(modules)}
    with tempfile.TemporaryFile("w+") as errors:
        node = subprocess.Popen(
            ["node", str(script), json.dumps(request)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        too_late = threading.Timer(seconds, node.kill)
        too_late.start()
        try:
            lines = _read(node, meanwhile)
            code = node.wait()
        finally:
            too_late.cancel()
            node.kill()
            node.wait()
        errors.seek(0)
        assert code == 0, f"{lines[-5:]}\n{errors.read()[-2000:]}"
    assert not meanwhile or "now" in lines, lines
    return json.loads(lines[-1])


def _read(node: "subprocess.Popen[str]", meanwhile: Callable[[], None] | None) -> list[str]:
    lines: list[str] = []
    assert node.stdout
    with node.stdout:
        for line in node.stdout:
            lines.append(line.strip())
            if meanwhile and lines[-1] == "now":
                meanwhile()
    return lines
