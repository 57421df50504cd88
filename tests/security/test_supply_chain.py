"""The locks: what is installed, by the hashes of its files, and that they hold everything pyproject.toml asks for."""

import re
import subprocess
import tomllib
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.source import ROOT

pytestmark = pytest.mark.one_database

# As in the packages katex 0.19.1 and mermaid 11.17.2 of npm.
VENDORED = {
    "katex/katex.min.js": "fa140498b8cfc8302cbe5e7cb1bdbc1f952bc38b3fa258ede09e73edbf9a74bc",
    "mermaid/mermaid.min.js": "581ed7d74bd9048d0e3a91363927d72ef22942d7722546b27f7cc29e35390eb8",
}
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-tools.lock", "requirements-foreign.lock")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def pins(lock: str) -> dict[str, list[tuple[str, int, Requirement]]]:
    """Return by name: the pinned versions, each with the number of its hashes and the requirement."""
    text = "\n".join(line for line in (ROOT / lock).read_text().splitlines() if not line.startswith("#"))
    found: dict[str, list[tuple[str, int, Requirement]]] = {}
    for entry in text.replace("\\\n", " ").splitlines():
        requirement = Requirement(entry.partition(" --hash")[0].strip())
        (specifier,) = requirement.specifier
        assert specifier.operator == "==" and requirement.url is None
        hashes = re.findall(r"--hash=sha256:[0-9a-f]{64}(?= |$)", entry)
        found.setdefault(canonicalize_name(requirement.name), []).append((specifier.version, len(hashes), requirement))
    return found


def version_here(lock: dict[str, list[tuple[str, int, Requirement]]], name: str) -> str:
    """Return the version that is installed on this Python and platform; empty if none is."""
    for version, _, requirement in lock.get(canonicalize_name(name), []):
        if requirement.marker is None or requirement.marker.evaluate():
            return version
    return ""


@pytest.mark.parametrize("lock", LOCKS)
def test_every_file_is_named_by_its_hash_and_no_address_is_in_the_lock(lock: str) -> None:
    found = pins(lock)
    assert len(found) > 20
    assert not [name for name, entries in found.items() if not all(hashes for _, hashes, _ in entries)]
    text = (ROOT / lock).read_text()
    assert "://" not in text and not re.search(r"^\s*-(?!-hash=sha256:)|^-", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("lock", "asked"),
    [
        (LOCKS[0], PROJECT["project"]["dependencies"]),
        (LOCKS[1], PROJECT["project"]["dependencies"]),
        (LOCKS[1], PROJECT["project"]["optional-dependencies"]["dev"]),
        (LOCKS[1], PROJECT["project"]["optional-dependencies"]["uvicorn"]),
        (LOCKS[2], PROJECT["dependency-groups"]["tools"]),
        (LOCKS[3], PROJECT["dependency-groups"]["foreign"]),
    ],
)
def test_a_lock_holds_what_the_project_asks_for(lock: str, asked: list[str]) -> None:
    found = pins(lock)
    for requirement in map(Requirement, asked):
        if requirement.name != PROJECT["project"]["name"]:
            version = version_here(found, requirement.name)
            assert version and requirement.specifier.contains(version), f"{requirement}: run `make lock`"


def test_tests_run_with_the_versions_of_the_runtime() -> None:
    runtime, dev = pins(LOCKS[0]), pins(LOCKS[1])
    assert not {name for name in runtime if version_here(runtime, name) != version_here(dev, name)}


def test_the_lock_holds_what_each_package_needs() -> None:
    """Look into the installed packages: a lock with a gap could not be installed by its hashes."""
    lock = pins(LOCKS[0])
    missing = []
    for name in lock:
        version = version_here(lock, name)
        if not version:
            continue
        assert metadata.version(name) == version, f"{name}: run `make install`"
        needed = [Requirement(text) for text in metadata.requires(name) or []]
        missing += [
            f"{name} needs {requirement}"
            for requirement in needed
            if (requirement.marker is None or requirement.marker.evaluate({"extra": ""}))
            and not requirement.specifier.contains(version_here(lock, requirement.name) or "0", prereleases=True)
        ]
    assert not missing


@pytest.mark.parametrize(
    ("program", "status", "shown"),
    [
        ("exit 0", 0, ""),
        ('for last; do :; done; echo "django 1 CVE-1" > "$last"; exit 1', 2, "django 1 CVE-1"),
        ("echo 'no connection' >&2; exit 1", 2, "not audited: the advisory service (pypi) did not answer"),
    ],
    ids=["nothing known", "a known weakness", "unreachable"],
)
def test_an_audit_fails_if_a_weakness_is_known_or_nothing_was_compared(
    tmp_path: Path, program: str, status: int, shown: str
) -> None:
    (tmp_path / "tools" / "bin").mkdir(parents=True)
    audit = tmp_path / "tools" / "bin" / "pip-audit"
    audit.write_text(f'#!/bin/sh\necho "$@" > arguments\n{program}\n')
    audit.chmod(0o700)
    command = ["make", "-f", str(ROOT / "Makefile"), "-o", "tools/.installed", "audit", "TOOLS=tools"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, shown in done.stdout) == (status, True)
    arguments = (tmp_path / "arguments").read_text()
    assert "--requirement requirements.lock --disable-pip --require-hashes --strict" in arguments


def test_ci_needs_no_advisory_service() -> None:
    assert "make audit" not in (ROOT / ".ci" / "run").read_text()


def test_installation_goes_by_hashes_and_builds_nothing() -> None:
    makefile = Path(ROOT / "Makefile").read_text()
    (locked,) = re.findall(r"^LOCKED := (.*)$", makefile, re.MULTILINE)
    assert "--require-hashes" in locked and "$(WHEELS)" in locked
    assert re.search(r"^WHEELS \?= --only-binary :all:$", makefile, re.MULTILINE)
    installs = re.findall(r"^\t.*-r requirements\S*\.lock$", makefile, re.MULTILINE)
    assert len(installs) == len(LOCKS)
    assert all("$(LOCKED)" in line or ("--require-hashes" in line and "$(WHEELS)" in line) for line in installs)


def test_libraries_of_browsers_are_those_of_their_packages_with_their_licences() -> None:
    folder = ROOT / "static" / "vendor"
    scripts = {str(path.relative_to(folder)): path for path in folder.rglob("*.js")}
    assert {name: sha256(path.read_bytes()).hexdigest() for name, path in scripts.items()} == VENDORED
    assert all((path.parent / "LICENSE.txt").is_file() for path in scripts.values())
    styles = (folder / "katex" / "katex.min.css").read_text()
    named = set(re.findall(r"url\(([^)]+)\)", styles))
    assert named == {f"fonts/{path.name}" for path in (folder / "katex" / "fonts").iterdir()}, "no other address"
