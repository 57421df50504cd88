"""The official suite of MCP: the required scenarios of a revision, for the server and for the client."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import django
import uvicorn
import yaml

ROOT = Path(__file__).parents[2]
REVISIONS = ("2025-11-25", "2026-07-28")
_SECONDS = 100
_CLIENT_SECONDS = 60  # of one scenario; most of it is the start of the programs
_RESULT = re.compile(r"^(?P<mark>[✓✗])\s+(?P<name>\S+):\s+(?P<passed>\d+) passed, (?P<failed>\d+) failed", re.MULTILINE)


def _suite(folder: Path) -> tuple[list[str], Path]:
    """Return the command of the suite, and the folder of its lists of required scenarios."""
    modules = folder / "node_modules"
    program = modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    return [str(modules / ".bin" / "node"), str(program)], program.parents[1] / "requirements"


def run_client(folder: Path, revision: str) -> dict[str, bool]:
    """Run the required client scenarios of a revision, one after the other. Returns for each whether it passed."""
    suite, lists = _suite(folder)
    client = folder / "client.sh"
    client.write_text(f'#!/bin/sh\ncd "{ROOT}" && exec "{sys.executable}" -m tests.conformance.client "$@"\n')
    client.chmod(0o755)
    results = {}
    for name in yaml.safe_load((lists / f"{revision}.yaml").read_text())["client"]:
        command = [*suite, "client", "--command", str(client), "--scenario", name, "--spec-version", revision]
        command += ["--timeout", str(_CLIENT_SECONDS * 1000)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS)
        results[name] = done.returncode == 0 and "OVERALL: PASSED" in done.stdout + done.stderr
        if not results[name]:
            print(done.stdout[-4000:], done.stderr[-4000:])  # noqa: T201
    return results


def run(folder: Path, url: str, revision: str) -> dict[str, bool]:
    """Run the required server scenarios of a revision. Returns for each whether all of its checks passed."""
    suite, lists = _suite(folder)
    command = [*suite, "server", "--url", url, "--requirements", revision]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS)
    passed = {found["name"] for found in _RESULT.finditer(done.stdout) if found["mark"] == "✓"}
    required = yaml.safe_load((lists / f"{revision}.yaml").read_text())["server"]
    results = {name: name in passed for name in required}
    if not all(results.values()):
        print(done.stdout, done.stderr[-2000:])  # noqa: T201
    return results


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the MCP endpoint with the fixtures, on a database of its own, until the block ends. Yields its URL."""
    os.environ |= {"KOMAND_DATA_DIR": str(folder / "data"), "DJANGO_SETTINGS_MODULE": "komand.settings.web"}
    django.setup()
    endpoint = import_module("tests.conformance.endpoint").make()
    server = uvicorn.Server(uvicorn.Config(endpoint, port=0, lifespan="off", log_config=None))
    serving = threading.Thread(target=server.run, daemon=True)
    serving.start()
    while not server.started and serving.is_alive():
        time.sleep(0.05)
    try:
        yield f"http://localhost:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        serving.join(20)
