"""Upgrades an installation of another release under load, and goes back: `python -m tests.upgrade [--from REV]`."""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from tests.upgrade.proof import DATABASES, REVISION, run_proof
from tests.upgrade.releases import UnknownRevision


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that every process is ended, too
    parser = argparse.ArgumentParser(prog="python -m tests.upgrade", description=__doc__)
    parser.add_argument("--from", dest="revision", default=REVISION, help="a revision of this clone (%(default)s)")
    parser.add_argument("--database", choices=DATABASES, action="append", help="both without it")
    parser.add_argument("--folder", type=Path, help="an empty folder, which stays; a temporary one without it")
    options = parser.parse_args()
    for database in options.database or DATABASES:
        with tempfile.TemporaryDirectory(prefix="komand-up-") as temporary:
            folder = options.folder / database if options.folder else Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            try:
                run_proof(folder, database, options.revision)
            except UnknownRevision as error:
                sys.exit(f"The revision cannot be read from this clone; fetch its history. {error}")
            except AssertionError as error:
                sys.stdout.write(f"{error}\n")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
