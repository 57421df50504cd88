"""`manage.py restart`: has a running supervisor migrate and replace its processes one by one, so that nobody waits."""

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
from komand.supervisor.status import NOT_RUNNING

_LONGEST_SECONDS = 600.0
_LOOK_SECONDS = 0.2


def main(argv: Sequence[str]) -> int:
    """Exit code 0 when every process is a new one, 1 when one could not be replaced, 3 when nothing runs."""
    parser = argparse.ArgumentParser(
        prog="manage.py restart",
        description="Replace every process by a new one, for new code, without an interruption. What the supervisor"
        " itself was started with (its flags, its environment) stays.",
    )
    parser.add_argument("--data-dir", type=Path, default=env.data_dir(), help="(KOMAND_DATA_DIR, ./var)")
    data_dir = parser.parse_args(argv).data_dir.expanduser().resolve()
    before = state.read(data_dir) if preflight.is_locked(data_dir) else None
    if before is None:
        sys.stdout.write(f"Komand is not running on {data_dir}. Start it with: python manage.py up\n")
        return NOT_RUNNING
    begun = time.monotonic()
    with suppress(ProcessLookupError):
        os.kill(before.pid, signal.SIGUSR1)
    failure = _wait(data_dir, before.rolls)
    if failure:
        sys.stderr.write(f"komand: {failure}\n")
        return 1
    sys.stdout.write(f"every process is a new one ({time.monotonic() - begun:.1f} s)\n")
    return 0


def _wait(data_dir: Path, rolls_before: int) -> str:
    """Until it is done; how it failed, empty when it did not."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    while time.monotonic() < deadline:
        note = state.read(data_dir) if preflight.is_locked(data_dir) else None
        if note is None:
            return "it was stopped meanwhile"
        if note.rolls > rolls_before:
            return note.roll_failure
        time.sleep(_LOOK_SECONDS)
    return f"it was not done within {_LONGEST_SECONDS:.0f} s; its own lines say why"
