"""`manage.py restart`: a rolling restart. The running supervisor migrates and replaces its processes one by one."""

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from komand.settings import env
from komand.supervisor import preflight, state
from komand.supervisor.status import NOT_RUNNING, collect_unsupervised, table

_LONGEST_SECONDS = 600.0
_LOOK_SECONDS = 0.2


def main(argv: Sequence[str]) -> int:
    """Return exit code 0 if every process was replaced, 1 if one was not, 3 if nothing runs."""
    parser = argparse.ArgumentParser(
        prog="manage.py restart",
        description="Replace every process by a new one, for new code, without an interruption. The flags and the"
        " environment of the supervisor stay the same.",
    )
    parser.add_argument(
        "--data-dir", type=Path, default=env.data_dir(), help="folder of all data (KOMAND_DATA_DIR, ./var)"
    )
    data_dir = parser.parse_args(argv).data_dir.expanduser().resolve()
    before = state.read(data_dir) if preflight.is_locked(data_dir) else None
    if before is None:
        return _refuse(data_dir)
    begun = time.monotonic()
    with suppress(ProcessLookupError):
        os.kill(before.pid, signal.SIGUSR1)
    failure = _wait(data_dir, before.rolls)
    if failure:
        sys.stderr.write(f"komand: {failure}\n")
        return 1
    sys.stdout.write(f"every process was replaced ({time.monotonic() - begun:.1f} s)\n")
    return 0


def _refuse(data_dir: Path) -> int:
    """Explain why there is no supervisor to replace processes, and return the exit code."""
    parts = collect_unsupervised(data_dir)
    if not parts:
        sys.stdout.write(f"Komand is not running on {data_dir}. Start it with: python manage.py up\n")
        return NOT_RUNNING
    sys.stdout.write(
        f"Komand runs on {data_dir}, without a supervisor of manage.py up:\n\n{table(parts)}\n\n"
        "Whatever started these processes has to restart them. Units of systemd: manage.py prepare, then one by one\n"
        "systemctl restart komand-web, komand-tools, komand-runs@1, …; see deploy/README.md.\n"
    )
    return 1


def _wait(data_dir: Path, rolls_before: int) -> str:
    """Wait for the end. Returns the reason of a failure; empty if it succeeded."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    while time.monotonic() < deadline:
        note = state.read(data_dir) if preflight.is_locked(data_dir) else None
        if note is None:
            return "the supervisor was stopped meanwhile"
        if note.rolls > rolls_before:
            return note.roll_failure
        time.sleep(_LOOK_SECONDS)
    return f"it was not done within {_LONGEST_SECONDS:.0f} s; see the supervisor's output"
