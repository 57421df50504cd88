"""Runs the integration tests on PostgreSQL: `python -m tests.on_postgres [pytest options]`.

On the server of KOMAND_TEST_DATABASE_URL, else on one started for this run alone.
"""

import os
import signal
import subprocess
import sys
from contextlib import nullcontext

from tests.postgres import find_install, run_postgres

VARIABLE = "KOMAND_TEST_DATABASE_URL"
_TESTS = ("tests/integration", "tests/chaos")
_CHOSEN = "not sqlite_only and not browser and not chaos"


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is ended too
    given = os.environ.get(VARIABLE)
    if not given and find_install() is None:
        sys.stdout.write(f"SKIPPED: there is no PostgreSQL for this platform; set {VARIABLE} to run these tests\n")
        return 0
    with nullcontext(given) if given else run_postgres() as url:
        command = [sys.executable, "-m", "pytest", *_TESTS, "-m", _CHOSEN, *sys.argv[1:]]
        return subprocess.run(command, env={**os.environ, VARIABLE: url}).returncode


if __name__ == "__main__":
    sys.exit(main())
