"""The comparison with other servers: a line for each, also for one that cannot be installed."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.peers import environments
from benchmarks.peers.__main__ import Found, row
from benchmarks.peers.subjects import SUBJECTS


def test_a_row_has_multiples_of_the_relay_and_what_is_missing() -> None:
    found = Found({1: (20.0, 2.0), 50: (300.0, 100.0)}, (40.0, 10.0, 20.0), (130.4, 117.0), 9000, 3)
    dbos = next(subject for subject in SUBJECTS if subject.name.startswith("DBOS"))
    cells = row(dbos, found).split(" | ")[1:5]
    assert cells == ["10.0 / 3.0 × (20 / 300 ms)", "40 + 10 ms (2.5 ×)", "130 / 117 MB", "3 of 9,000"]


def test_a_package_that_cannot_be_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import sys; sys.exit('ERROR: No matching distribution found for peer==1')"
    monkeypatch.setattr(subprocess, "run", run_instead(script))
    with pytest.raises(environments.NotInstalled, match="No matching distribution found for peer==1"):
        environments.programs_of("chainlit", tmp_path)
    assert not list(tmp_path.iterdir())


def run_instead(script: str) -> object:
    run = subprocess.run
    return lambda command, **options: run([sys.executable, "-c", script], **options)
