"""Recovery times of answers: `python -m tests.chaos.recovery --kills 50 --stops 10 --rolls 3`.

For SQLite and for PostgreSQL it prints, in seconds: after a `kill -9` of a runs worker in the middle of an answer, when
its run was freed (noticed), claimed again, and its text moved again; the same after a SIGSTOP, with what the worker
wrote after SIGCONT; and, while web and workers are restarted one after the other under thirty answers, the longest
silence that a viewer of each had.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import psutil

from tests.chaos import rolling_restart
from tests.chaos.live_faults_support import Installation, open_installation
from tests.fakes.model_server import ModelServer
from tests.support.live_server import wait_for
from tests.support.postgres import find_install, open_postgres

ANSWER = "[[tokens=800 rate=40]]"


@dataclass(frozen=True)
class Recovery:
    """Seconds after the signal; late_writes: what the replaced worker still wrote to the run's stream or row."""

    noticed: float
    claimed: float
    moving: float
    late_writes: int = 0


def measure_kill(host: Installation) -> Recovery:
    """Kill the worker of a run in the middle of its answer and measure the recovery; cancel the run afterwards."""
    run_id, session_id = _begin(host)
    host.strike_holder(run_id)
    found = _watch(host, run_id)
    host.post(f"/api/sessions/{session_id}/cancel", {})
    host.wait_ended(run_id)
    return found


def measure_kill_of_all(host: Installation) -> Recovery:
    """Do the same, and kill the other runs workers before, so that a new process must continue."""
    run_id, session_id = _begin(host)
    holder = host.holder_of(run_id)
    for pid in [*(pid for pid in host.pids("runs") if pid != holder), holder]:
        psutil.Process(pid).kill()
    found = _watch(host, run_id)
    host.post(f"/api/sessions/{session_id}/cancel", {})
    host.wait_ended(run_id)
    return found


def measure_stop(host: Installation) -> Recovery:
    """Send SIGSTOP to the worker of such a run, and SIGCONT when another worker has taken over."""
    run_id, session_id = _begin(host)
    pid = host.strike_holder(run_id, signal.SIGSTOP)
    found = _watch(host, run_id)
    written = len(_entries(host, run_id, 1))
    with suppress(ProcessLookupError):  # its supervisor has replaced it by now, or it continues with a lost claim
        os.kill(pid, signal.SIGCONT)
    time.sleep(1.0)
    late = len(_entries(host, run_id, 1)) - written
    host.post(f"/api/sessions/{session_id}/cancel", {})
    run = host.wait_ended(run_id)
    return Recovery(found.noticed, found.claimed, found.moving, late + (run["fence"] != 2))


def _begin(host: Installation) -> tuple[UUID, UUID]:
    sent = host.send(ANSWER)
    host.wait_text(sent.run_id)
    time.sleep(0.5)
    return sent.run_id, sent.session_id


def _watch(host: Installation, run_id: UUID) -> Recovery:
    struck_at = time.monotonic()

    def since(reached: Callable[[], object]) -> float:
        wait_for(reached, 60, "the recovery")
        return time.monotonic() - struck_at

    return Recovery(
        noticed=since(lambda: _is_freed(host, run_id)),
        claimed=since(lambda: host.run(run_id)["fence"] >= 2),
        moving=since(lambda: _entries(host, run_id, 2, "text.delta")),
    )


def _is_freed(host: Installation, run_id: UUID) -> bool:
    run = host.run(run_id)
    return run["crashes"] >= 1 or run["fence"] >= 2


def _entries(host: Installation, run_id: UUID, fence: int, event_type: str = "") -> list[object]:
    """Return the entries that a claim wrote to the live stream."""
    return [entry for number, entry in host.entries(run_id) if number == fence and event_type in ("", entry["type"])]


def measure_many(host: Installation, measure: Callable[[Installation], Recovery], count: int) -> list[Recovery]:
    found = []
    for _ in range(count):
        host.wait_well()
        found.append(measure(host))
    return found


def table(name: str, found: Sequence[Recovery]) -> str:
    lines = [f"{name:<44}   p50 s   p95 s   max s"]
    lines += [line(moment, [getattr(one, moment) for one in found]) for moment in ("noticed", "claimed", "moving")]
    lines.append(f"  {'late writes':<42}{sum(one.late_writes for one in found):8}")
    return "\n".join(lines)


def line(name: str, seconds: Sequence[float]) -> str:
    values = sorted(seconds)
    p95 = values[min(len(values) - 1, round(0.95 * (len(values) - 1)))]
    return f"  {name:<42}{statistics.median(values):8.2f}{p95:8.2f}{values[-1]:8.2f}"


@contextmanager
def installations(
    folder: Path, model: ModelServer, chosen: Sequence[str], run_workers: int
) -> Iterator[Iterator[tuple[str, Installation]]]:
    """Yield an installation with so many runs workers for each chosen database, one after the other."""
    count = str(run_workers)

    def each() -> Iterator[tuple[str, Installation]]:
        if "sqlite" in chosen:
            with open_installation(folder / "sqlite", model, KOMAND_RUN_WORKERS=count) as host:
                yield "SQLite", host
        if "postgresql" in chosen and find_install() is not None:
            with (
                open_postgres() as server,
                open_installation(folder / "postgresql", model, server.url, KOMAND_RUN_WORKERS=count) as host,
            ):
                yield "PostgreSQL", host

    found = each()
    try:
        yield found
    finally:
        found.close()  # type: ignore[attr-defined]


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Run so many processes that use a processor without a pause."""
    loops = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--stops", type=int, default=10)
    parser.add_argument("--rolls", type=int, default=3)
    parser.add_argument("--databases", nargs="+", choices=("sqlite", "postgresql"), default=["sqlite", "postgresql"])
    parser.add_argument("--run-workers", type=int, default=2)
    parser.add_argument("--busy", type=int, default=0, help="processes that use a processor meanwhile")
    options = parser.parse_args()
    sys.stdout.write(f"load of this machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
    with (
        busy(options.busy),
        ModelServer() as model,
        tempfile.TemporaryDirectory() as folder,
        installations(Path(folder), model, options.databases, options.run_workers) as found,
    ):
        for name, host in found:
            for text in _figures(name, host, options):
                sys.stdout.write(text + "\n")
                sys.stdout.flush()
    return 0


def _figures(name: str, host: Installation, options: argparse.Namespace) -> Iterator[str]:
    if options.kills:
        killed = measure_many(host, measure_kill, options.kills)
        yield table(f"{name}, {options.kills} times kill -9", killed)
    if options.stops:
        yield table(f"{name}, {options.stops} times SIGSTOP", measure_many(host, measure_stop, options.stops))
    if options.rolls:
        rolls = [rolling_restart.measure(host) for _ in range(options.rolls)]
        holes = [hole for roll in rolls for hole in roll.holes]
        title = f"{name}, {options.rolls} rolling restarts under {rolling_restart.RUNS} answers"
        yield f"{title:<44}   p50 s   p95 s   max s"
        yield line("longest silence", holes)
        yield line("silence without a restart", [hole for roll in rolls for hole in roll.quiet_holes])
        yield f"  {'failed answers':<42}{sum(roll.failed for roll in rolls):8}"
        yield f"  {'crashes counted':<42}{sum(roll.crashes for roll in rolls):8}"
        yield f"  {'answers started again':<42}{sum(roll.again for roll in rolls):8}"


if __name__ == "__main__":
    sys.exit(main())
