"""The cost of everyday operations in a database with a month of traffic, compared with a morning's.

Both databases are filled and probed in the same run, one operation at a time in turns, so that a busy machine slows
both. The smaller one has a morning's traffic, so that lists have full pages in both.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.databases import Databases
from benchmarks.figures import Figure, p50
from benchmarks.processes import Gateway, NotStarted
from benchmarks.scale import Scale

PART = "growth"
_FILL_SECONDS = 1800
_SMALL, _LARGE = (100, 60), (1_000, 600)  # agents, channel accounts
_RATIO = 1.5


class Probe:
    """A process that runs operations on one database and returns the milliseconds of each."""

    def __init__(self, process: Any) -> None:
        self._process = process
        self.acts: list[str] = self._answer()

    def take(self, act: str) -> float:
        self._process.stdin.write(f"{act}\n")
        self._process.stdin.flush()
        return float(self._answer())

    def _answer(self) -> Any:
        line = self._process.stdout.readline()
        if not line:
            raise NotStarted("the probe ended before it answered")
        return json.loads(line)


def measure(folder: Path, model_url: str, scale: Scale, databases: Databases) -> list[Figure]:
    morning, month, rounds = scale.growth
    with ExitStack() as stack:
        small = stack.enter_context(_filled(folder / "morning", model_url, databases, morning, *_SMALL))
        large = stack.enter_context(_filled(folder / "month", model_url, databases, month, *_LARGE))
        taken: dict[str, tuple[list[float], list[float]]] = {act: ([], []) for act in small.acts}
        for number in range(rounds + 1):
            for act, (of_small, of_large) in taken.items():
                took = small.take(act), large.take(act)
                if number:  # the first time warms caches and is not counted
                    of_small.append(took[0])
                    of_large.append(took[1])
    figures = []
    for act, (of_small, of_large) in taken.items():
        figures.append(
            Figure(PART, f"{act}: {month:,} turns / {morning:,}", p50(of_large) / p50(of_small), "×", _RATIO)
        )
        figures.append(Figure(PART, f"{act}: {month:,} turns, median", p50(of_large), "ms"))
    return figures


@contextmanager
def _filled(
    data_dir: Path, model_url: str, databases: Databases, turns: int, agents: int, accounts: int
) -> Iterator[Probe]:
    sys.stderr.write(f"filling a database with {turns:,} turns …\n")
    gateway = Gateway(data_dir, model_url, **databases.make(data_dir).environment)
    gateway.prepare()
    sizes = {"--turns": turns, "--agents": agents, "--accounts": accounts}
    given = [part for name, value in sizes.items() for part in (name, str(value))]
    gateway.run(["-m", "benchmarks.growth_data.traffic", *given], seconds=_FILL_SECONDS)
    with gateway.open("benchmarks.growth_data.probe") as process:
        try:
            yield Probe(process)
        finally:
            process.terminate()
