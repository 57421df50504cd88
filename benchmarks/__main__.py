"""The command: `python -m benchmarks [part …] [--quick] [--json FILE] [--write PAGE]`. Prints one Markdown table."""

import argparse
import asyncio
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import meters, report
from benchmarks.databases import KINDS, Databases, open_databases
from benchmarks.figures import Figure
from benchmarks.installation import Installation, NotFinished, open_installation
from benchmarks.parts import (
    drafts,
    encoders,
    fanout,
    first_token,
    growth,
    idle,
    long_sessions,
    memory,
    overhead,
    page,
    policy,
    receipts,
    retrieval,
    sockets,
    stalled,
    startup,
    streams,
    throughput,
    trees,
    webhooks,
)
from benchmarks.processes import Listener, NotStarted
from benchmarks.scale import FULL, QUICK, Scale
from benchmarks.wire import Refused

Measure = Callable[[Installation, Scale], Coroutine[Any, Any, list[Figure]]]

# In this order: memory is measured before the installation does anything else.
_RUNNING: dict[str, Measure] = {
    module.PART: module.measure
    for module in (
        memory,
        idle,
        page,
        first_token,
        throughput,
        webhooks,
        drafts,
        streams,
        encoders,
        fanout,
        stalled,
        overhead,
        long_sessions,
    )
}
NAMES = (startup.PART, sockets.PART, growth.PART, retrieval.PART, trees.PART, *_RUNNING, receipts.PART, policy.PART)
_MODEL_SERVER = ("tests.fakes.model_server", "--port", "0")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Start an installation of its own with a fake model, measure it and stop it. Only 127.0.0.1.",
        epilog=f"parts: {', '.join(NAMES)}",
    )
    parser.add_argument("parts", nargs="*", metavar="part", help="what to measure (default: everything)")
    parser.add_argument(
        "--quick", action="store_true", help="small numbers: tests that the benchmarks work, not how fast"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument(
        "--write", type=Path, metavar="PAGE", help="write the figures into the block of measured figures of this page"
    )
    parser.add_argument("--server", choices=("daphne", "uvicorn"), default="daphne", help="web server (%(default)s)")
    parser.add_argument("--database", choices=KINDS, default="sqlite", help="kind of database (%(default)s)")
    options = parser.parse_args(argv)
    if unknown := [name for name in options.parts if name not in NAMES]:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(NAMES)}")
    if options.write and options.quick:
        parser.error("--quick measures nothing that belongs into a page")
    options.parts = [name for name in NAMES if name in (options.parts or NAMES)]
    return options


class Bench:
    """One run of some parts. loads: the machine's load average before each."""

    def __init__(self, parts: Sequence[str], scale: Scale, server: str, database: str) -> None:
        self._parts = parts
        self._database = database
        self._scale = scale
        self._server = server
        self.loads: dict[str, float] = {}

    def run(self) -> list[Figure]:
        figures: list[Figure] = []
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="komand-bench-")))
            if receipts.PART in self._parts:
                self._announce(receipts.PART)
                figures += receipts.measure(self._scale)
            if policy.PART in self._parts:
                self._announce(policy.PART)
                figures += policy.measure(folder, self._scale)
            if set(self._parts) <= {receipts.PART, policy.PART}:
                return figures
            model = stack.enter_context(Listener(*_MODEL_SERVER))
            databases = stack.enter_context(open_databases(self._database))
            if startup.PART in self._parts:
                self._announce(startup.PART)
                figures += startup.measure(folder, model.url, self._scale, self._server)
            if sockets.PART in self._parts:
                self._announce(sockets.PART)
                figures += sockets.measure(folder, model.url, self._scale)
            if growth.PART in self._parts:
                self._announce(growth.PART)
                figures += growth.measure(folder, model.url, self._scale, databases)
            if retrieval.PART in self._parts:
                self._announce(retrieval.PART)
                figures += retrieval.measure(folder, model.url, self._scale, databases)
            if trees.PART in self._parts:
                self._announce(trees.PART)
                figures += trees.measure(folder, model.url, self._scale, databases)
            wanted = [name for name in self._parts if name in _RUNNING]
            if wanted:
                figures += self._measure_running(stack, folder, model, databases, wanted)
        return figures

    def _measure_running(
        self, stack: ExitStack, folder: Path, model: Listener, databases: Databases, wanted: Sequence[str]
    ) -> list[Figure]:
        installation = stack.enter_context(open_installation(folder, model, self._scale, self._server, databases))
        figures: list[Figure] = []
        for name in wanted:
            self._announce(name)
            try:
                figures += asyncio.run(_RUNNING[name](installation, self._scale))
            except (NotFinished, Refused, OSError) as error:  # TimeoutError is an OSError
                reason = str(error) or "answers did not come in time"
                raise NotFinished(f"{name}: {reason}\n{installation.gateway.log_tail()}") from error
        return figures

    def _announce(self, part: str) -> None:
        self.loads[part] = round(meters.load_average(), 2)
        print(f"{part} … (load average {self.loads[part]})", file=sys.stderr, flush=True)


def conditions(bench: Bench, scale: Scale, options: argparse.Namespace, seconds: float) -> dict[str, Any]:
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "server": options.server,
        "database": options.database,
        "scale": "quick" if scale is QUICK else "full",
        "took_seconds": round(seconds),
        "load_average_before": bench.loads,
    }


def main(argv: Sequence[str]) -> int:
    """Return the exit code: 0 if everything was measured, whatever the figures; 1 if something failed."""
    options = parse(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that every `with` block ends its process
    scale = QUICK if options.quick else FULL
    bench = Bench(options.parts, scale, options.server, options.database)
    begun = time.monotonic()
    try:
        figures = bench.run()
    except (NotStarted, NotFinished) as error:
        sys.exit(f"benchmarks: {error}")
    measured = conditions(bench, scale, options, time.monotonic() - begun)
    loads = ", ".join(f"{part} {load}" for part, load in bench.loads.items())
    where = ", ".join(str(measured[name]) for name in ("machine", "server", "database"))
    print(f"\n{report.table(figures)}\n\n{where}, Python {measured['python']}; load average before each part: {loads}")
    if options.json:
        options.json.write_text(report.document(figures, measured))
    if options.write:
        options.write.write_text(report.write(options.write.read_text(), figures, measured))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
