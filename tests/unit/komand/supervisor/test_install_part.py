"""One line about each part of the installation, on a terminal and without one."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from tests.support.live_server import ROOT

MODULE = [sys.executable, "-S", "-m", "komand.supervisor.install_part", "packages"]
WORKS = [sys.executable, "-S", "-c", "print('Collecting django'); print('Installed')"]
FAILS = [sys.executable, "-S", "-c", "import sys; print('no such package'); sys.exit(3)"]


def test_a_part_that_works_is_one_line_without_its_output() -> None:
    done = subprocess.run([*MODULE, *WORKS], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == ""
    assert re.fullmatch(r"  … packages\n  ✓ packages +\d+\.\d s\n", done.stdout)


def test_a_part_that_fails_shows_its_output_and_stops_the_installation() -> None:
    done = subprocess.run([*MODULE, *FAILS], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3 and "✗ packages failed (3):\nno such package" in done.stdout


def test_a_terminal_shows_the_last_output_meanwhile() -> None:
    ours, theirs = pty.openpty()
    subprocess.run([*MODULE, *WORKS], cwd=ROOT, stdout=theirs, timeout=60, check=True)
    os.close(theirs)
    shown = os.read(ours, 65_536).decode()
    os.close(ours)
    assert "Installed" in shown and shown.rstrip().endswith(" s")
    assert re.search(r"\r\x1b\[K.*✓.* packages", shown, re.DOTALL)


def test_the_makefile_reports_each_slow_part() -> None:
    rules = Path(ROOT / "Makefile").read_text()
    assert re.findall(r"\$\(PART\) (\w+)", rules) == ["virtualenv", "bytecode", "packages", "packages"]
