"""The command: `python -m tests.security.taint --write PAGE`. Makes all attacks and writes the table of results."""

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import django

from tests.security.taint import FIGURES

_TEST = "tests/security/taint/test_evaluation.py::test_nothing_leaves_unapproved"


def main() -> int:
    """Return the exit code of the tests. The table is written in any case: it shows what has failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.security.taint")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="write the table into its block of this page")
    page = parser.parse_args().write
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "whole", _TEST]
        code = subprocess.run(command, env={**os.environ, FIGURES: folder}, check=False).returncode
        found = dict(json.loads(path.read_text()) for path in Path(folder).iterdir())
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    results = importlib.import_module("tests.security.taint.results")
    sys.stdout.write(f"{results.table(found)}\n")
    if page:
        page.write_text(results.write(page.read_text(), found))
    return code


if __name__ == "__main__":
    sys.exit(main())
