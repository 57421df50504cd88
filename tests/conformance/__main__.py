"""Conformance with the protocols, by the suites of others, pinned: `python -m tests.conformance`.

- The official suite of MCP: `/mcp` with the suite's fixtures, and `tests/conformance/client.py` against its servers.
- The CLI of the MCP Inspector, and llm-comply on the OpenAI surface, against a whole installation.

Writes the counts to docs/conformance.md. Fails if a case does not pass. Needs npm; without it, it says so and ends.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.conformance import installation, mcp_suite

PAGE = mcp_suite.ROOT / "docs" / "conformance.md"
SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
NODE = "node@22.23.3"  # the suites need a newer Node than many systems have
COMPLY = "llm-comply==0.5.0"
INSTALL_SECONDS = 100
_BY_HAND = "## Responses API"  # what follows on the page is kept
Results = Mapping[
    str, Mapping[str, bool | None]
]  # whether a case passed, by part and case; None: the suite left it out


class Section(NamedTuple):
    """One suite on the page. part, cases: headings of the table's columns."""

    title: str
    lead: str
    part: str
    cases: str
    results: Results


def main() -> int:
    if not shutil.which("npm"):
        return _not_tested("npm is not installed here")
    with tempfile.TemporaryDirectory(prefix="komand-conformance-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        try:
            _install(folder)
        except subprocess.SubprocessError as problem:
            return _not_tested(f"packages could not be installed: {problem}")
        sections = _sections(folder)
    _, heading, by_hand = PAGE.read_text().partition(_BY_HAND)
    PAGE.write_text("\n".join(filter(None, [page(sections), heading + by_hand])))
    return max(report(section) for section in sections)


def _not_tested(reason: str) -> int:
    print(f"komand: NOT TESTED: the conformance with protocols, because {reason}", file=sys.stderr)  # noqa: T201
    return 0


def _install(folder: Path) -> None:
    """Install the packages of npm into `node_modules` of the folder, and that of PyPI into `python`."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
    npm = ["npm", "install", "--no-audit", "--no-fund", "--prefer-offline", "--prefix", str(folder)]
    for command in ([*pip, "--target", str(folder / "python"), COMPLY], [*npm, SUITE, INSPECTOR, NODE]):
        subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_SECONDS)


def _sections(folder: Path) -> list[Section]:
    with installation.installed(folder / "installation") as komand:
        inspected = installation.run_inspector(folder / "node_modules", komand)
        complied = installation.run_comply(folder / "python", komand)
    with mcp_suite.served(folder) as url:
        of_server = {revision: mcp_suite.run(folder, url, revision) for revision in mcp_suite.REVISIONS}
    of_client = {revision: mcp_suite.run_client(folder, revision) for revision in mcp_suite.REVISIONS}
    columns = ("Revision", "Required scenarios passed")
    fixtures = "With the suite's fixtures, registered like any other offer (`tests/conformance/fixtures.py`)."
    program = "With a program that connects and answers as agents and their users do (`tests/conformance/client.py`)."
    methods = f"Over an installation, with a key: {', '.join(f'`{method}`' for method in inspected)}."
    left_out = (
        "Over an installation with a scripted model. The suite runs its case of reasoning summaries only for names of\n"
        "models that it knows; [the `reasoning` of a request is ignored](openai.md#open-responses) here."
    )
    return [
        Section(f"MCP server: `{SUITE}`", fixtures, *columns, of_server),
        Section(f"MCP client: `{SUITE}`", program, *columns, of_client),
        Section(f"MCP server: `{INSPECTOR}`, CLI", methods, "Client", "Requests answered", {"CLI": inspected}),
        Section(f"OpenAI's protocol: `{COMPLY}`", left_out, "Suite", "Cases that run and passed", complied),
    ]


def page(sections: list[Section]) -> str:
    """Return the page of the counts."""
    lines = [
        "# Conformance",
        "",
        "`make conformance` runs suites of others against this server and writes this page.",
        "",
    ]
    for section in sections:
        lines += [f"## {section.title}", "", section.lead, "", *_table(section)]
    return "\n".join(lines)


def _table(section: Section) -> list[str]:
    """Return the table of the counts and the cases that did not pass."""
    rows = [f"| {part} | {_count(found)} |" for part, found in section.results.items()]
    failed: dict[str, list[str]] = {}
    for part, found in section.results.items():
        for name in _failed(found):
            failed.setdefault(name, []).append(part)
    named = [f"- `{name}` ({', '.join(parts)})" for name, parts in failed.items()]
    left = ["Not passed:", "", *named, ""] if named else []
    return [f"| {section.part} | {section.cases} |", "| --- | --- |", *rows, "", *left]


def _count(found: Mapping[str, bool | None]) -> str:
    run = [passed for passed in found.values() if passed is not None]
    return f"{sum(run)} of {len(run)}"


def _failed(found: Mapping[str, bool | None]) -> list[str]:
    return [name for name, passed in found.items() if passed is False]


def report(section: Section) -> int:
    """Print the counts and return the exit code."""
    for part, found in section.results.items():
        print(f"{section.title} {part}: {_count(found)}; not passed: {', '.join(_failed(found)) or 'none'}")  # noqa: T201
    parts = section.results.values()
    return 1 if any(_failed(found) or True not in found.values() for found in parts) else 0


if __name__ == "__main__":
    sys.exit(main())
