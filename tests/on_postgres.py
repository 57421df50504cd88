"""Runs integration tests on PostgreSQL: `python -m tests.on_postgres [-m EXPRESSION] [pytest options]`.

On the server of KOMAND_TEST_DATABASE_URL, else on one started for this run. Tests marked `sqlite_only` are never run.
"""

import argparse
import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

from tests.support.postgres import find_install, run_postgres

VARIABLE = "KOMAND_TEST_DATABASE_URL"
_TESTS = ("tests/integration", "tests/security", "tests/chaos")
_NEVER = "not sqlite_only and not chaos"


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is ended too
    given = os.environ.get(VARIABLE)
    if not given and find_install() is None:
        sys.stdout.write(f"SKIPPED: there is no PostgreSQL for this platform; set {VARIABLE} to run these tests\n")
        return 0
    parser = argparse.ArgumentParser(prog="python -m tests.on_postgres", allow_abbrev=False)
    parser.add_argument("-m", dest="marked", default="not whole", help="which tests, by their markers (%(default)s)")
    options, others = parser.parse_known_args()
    paths = [] if any(Path(one.partition("::")[0]).exists() for one in others) else _TESTS
    with nullcontext(given) if given else run_postgres() as url:
        command = [sys.executable, "-m", "pytest", *paths, "-m", f"{_NEVER} and ({options.marked})", *others]
        return subprocess.run(command, env={**os.environ, VARIABLE: url}).returncode


if __name__ == "__main__":
    sys.exit(main())
