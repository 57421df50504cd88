"""How fast an answer moves again after its worker was killed: `python -m tests.chaos.recovery --kills 50`.

Prints, for SQLite and for PostgreSQL, p50 and p95 of three moments after a `kill -9` in the middle of an answer: the
run was freed (noticed), claimed again, and its text moved again.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from tests.chaos.fire import Fire, open_fire
from tests.fakes.model_server import ModelServer
from tests.live import wait_for
from tests.postgres import find_install, run_postgres

ANSWER = "[[tokens=400 rate=40]]"


@dataclass(frozen=True)
class Recovery:
    """Seconds after the kill."""

    noticed: float
    claimed: float
    moving: float


def measure(fire: Fire) -> Recovery:
    """Kill the worker of a run that is in the middle of its answer, and watch; the run is stopped afterwards."""
    sent = fire.send(ANSWER)
    fire.wait_text(sent.run_id)
    time.sleep(0.5)
    fire.strike_holder(sent.run_id)
    killed_at = time.monotonic()

    def since(reached: object) -> float:
        wait_for(reached, 60, "the recovery")  # type: ignore[arg-type]
        return time.monotonic() - killed_at

    noticed = since(lambda: _is_freed(fire, sent.run_id))
    claimed = since(lambda: fire.run(sent.run_id)["fence"] >= 2)
    moving = since(
        lambda: any(fence >= 2 and entry["type"] == "text.delta" for fence, entry in fire.entries(sent.run_id))
    )
    fire.post(f"/api/sessions/{sent.session_id}/cancel", {})
    fire.wait_ended(sent.run_id)
    return Recovery(noticed, claimed, moving)


def _is_freed(fire: Fire, run_id: UUID) -> bool:
    run = fire.run(run_id)
    return run["crashes"] >= 1 or run["fence"] >= 2


def measure_many(fire: Fire, kills: int) -> list[Recovery]:
    found = []
    for _ in range(kills):
        fire.wait_well()
        found.append(measure(fire))
    return found


def table(name: str, found: Sequence[Recovery]) -> str:
    lines = [f"{name}, {len(found)} kills   p50 s   p95 s   max s"]
    for moment in ("noticed", "claimed", "moving"):
        values = sorted(getattr(one, moment) for one in found)
        p95 = values[min(len(values) - 1, round(0.95 * (len(values) - 1)))]
        lines.append(f"  {moment:<18}{statistics.median(values):8.2f}{p95:8.2f}{values[-1]:8.2f}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--databases", nargs="+", choices=("sqlite", "postgresql"), default=["sqlite", "postgresql"])
    options = parser.parse_args()
    with ModelServer() as model, tempfile.TemporaryDirectory() as folder:
        if "sqlite" in options.databases:
            with open_fire(Path(folder) / "sqlite", model) as fire:
                sys.stdout.write(table("SQLite", measure_many(fire, options.kills)) + "\n")
        if "postgresql" in options.databases and find_install() is not None:
            with run_postgres() as url, open_fire(Path(folder) / "postgresql", model, url) as fire:
                sys.stdout.write(table("PostgreSQL", measure_many(fire, options.kills)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
