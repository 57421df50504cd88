"""Conformance of the MCP server and the MCP client: `python -m tests.conformance`.

Serves `/mcp` with the suite's fixtures, and runs `tests/conformance/client.py` against the suite's servers: each
required scenario of both frozen revisions of the official suite. Writes the counts to docs/conformance.md. Fails if a
scenario does not pass. Needs npm; without it, it says so and ends.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
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
PAGE = ROOT / "docs" / "conformance.md"
SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
NODE = "node@22.23.3"  # the suite needs a newer Node than many systems have
REVISIONS = ("2025-11-25", "2026-07-28")
INSTALL_SECONDS, SUITE_SECONDS = 100, 100
CLIENT_SECONDS = 60  # of one scenario; most of it is the start of the programs
_BY_HAND = "## Responses API"  # what follows on the page is kept
_RESULT = re.compile(r"^(?P<mark>[✓✗])\s+(?P<name>\S+):\s+(?P<passed>\d+) passed, (?P<failed>\d+) failed", re.MULTILINE)


def main() -> int:
    if not shutil.which("npm"):
        print("komand: NOT TESTED: the conformance of MCP, because npm is not installed here", file=sys.stderr)  # noqa: T201
        return 0
    with tempfile.TemporaryDirectory(prefix="komand-conformance-", ignore_cleanup_errors=True) as folder:
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefer-offline", "--prefix", folder, SUITE, NODE]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_SECONDS)
        except subprocess.SubprocessError as problem:
            print(f"komand: NOT TESTED: the conformance of MCP, because npm failed: {problem}", file=sys.stderr)  # noqa: T201
            return 0
        with served(Path(folder)) as url:
            results = {revision: run(Path(folder), url, revision) for revision in REVISIONS}
        of_client = {revision: run_client(Path(folder), revision) for revision in REVISIONS}
    _, heading, by_hand = PAGE.read_text().partition(_BY_HAND)
    PAGE.write_text("\n".join(filter(None, [page(results, of_client), heading + by_hand])))
    return max(report("server", results), report("client", of_client))


def suite_of(folder: Path) -> tuple[list[str], Path]:
    """Return the command of the suite, and the folder of its lists of required scenarios."""
    modules = folder / "node_modules"
    program = modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    return [str(modules / ".bin" / "node"), str(program)], program.parents[1] / "requirements"


def run_client(folder: Path, revision: str) -> dict[str, bool]:
    """Run the required client scenarios of a revision, one after the other. Returns for each whether it passed."""
    suite, lists = suite_of(folder)
    client = folder / "client.sh"
    client.write_text(f'#!/bin/sh\ncd "{ROOT}" && exec "{sys.executable}" -m tests.conformance.client "$@"\n')
    client.chmod(0o755)
    results = {}
    for name in yaml.safe_load((lists / f"{revision}.yaml").read_text())["client"]:
        command = [*suite, "client", "--command", str(client), "--scenario", name, "--spec-version", revision]
        command += ["--timeout", str(CLIENT_SECONDS * 1000)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SUITE_SECONDS)
        results[name] = done.returncode == 0 and "OVERALL: PASSED" in done.stdout + done.stderr
        if not results[name]:
            print(done.stdout[-4000:], done.stderr[-4000:])  # noqa: T201
    return results


def run(folder: Path, url: str, revision: str) -> dict[str, bool]:
    """Run the required server scenarios of a revision. Returns for each whether all of its checks passed."""
    suite, lists = suite_of(folder)
    command = [*suite, "server", "--url", url, "--requirements", revision]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SUITE_SECONDS)
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


def page(results: dict[str, dict[str, bool]], of_client: dict[str, dict[str, bool]]) -> str:
    """Return the page of the counts."""
    return "\n".join(
        [
            "# Conformance",
            "",
            "`make conformance` runs the official suites of protocols against this server and writes this page.",
            "",
            f"## MCP server: `{SUITE}`",
            "",
            "With the suite's fixtures, registered like any other offer (`tests/conformance/fixtures.py`).",
            "",
            *_table(results),
            f"## MCP client: `{SUITE}`",
            "",
            "With a program that connects and answers as agents and their users do (`tests/conformance/client.py`).",
            "",
            *_table(of_client),
        ]
    )


def _table(results: dict[str, dict[str, bool]]) -> list[str]:
    """Return the table of the counts and the scenarios that did not pass."""
    rows = [f"| {revision} | {sum(found.values())} of {len(found)} |" for revision, found in results.items()]
    failed: dict[str, list[str]] = {}
    for revision, found in results.items():
        for name in found:
            if not found[name]:
                failed.setdefault(name, []).append(revision)
    named = [f"- `{name}` ({', '.join(revisions)})" for name, revisions in failed.items()]
    left = ["Not passed:", "", *named, ""] if named else []
    return ["| Revision | Required scenarios passed |", "| --- | --- |", *rows, "", *left]


def report(side: str, results: dict[str, dict[str, bool]]) -> int:
    """Print the counts and return the exit code."""
    is_right = True
    for revision, found in results.items():
        failed = [name for name, passed in found.items() if not passed]
        counts = f"{len(found) - len(failed)} of {len(found)}"
        print(f"{side} {revision}: {counts}; not passed: {', '.join(failed) or 'none'}")  # noqa: T201
        is_right &= bool(found) and not failed
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
