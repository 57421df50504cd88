"""The command: `python -m benchmarks.peers [server …] [--cache FOLDER]`. Prints one Markdown table.

Each server is started alone, with the bare relay beside it. Their bursts take turns: a busy machine slows both.
"""

import argparse
import asyncio
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.figures import p50
from benchmarks.meters import CpuMeter, load_average, proportional_bytes, resident_bytes
from benchmarks.peers.environments import PACKAGES, NotInstalled, default_cache
from benchmarks.peers.subjects import BURSTS, SUBJECTS, Running, Subject
from benchmarks.processes import Listener, NotStarted
from benchmarks.viewers import RATE, RelayViewer, Tally, Viewer, close_all, message, open_all
from benchmarks.wire import Refused

_TOKENS, _LONG = 30, 100  # of an answer: for the first token, for the CPU time of a turn
_TURNS_AT = 50
_ROUNDS = {1: 10, 50: 2, 200: 1}  # of each burst
_LATE_SECONDS = 120
_COLUMNS = (
    "Server | First token, 1 / 50 / 200 at once | CPU of a turn, 50 at once | RSS / PSS | Missing tokens | Stored"
)
_HEAD = f"| {_COLUMNS} |\n| --- | ---: | ---: | ---: | ---: | --- |"


@dataclass
class Found:
    """first_ms: server and relay, by burst. cpu_ms: server, its database and relay. memory_mb: RSS and PSS."""

    first_ms: dict[int, tuple[float, float]] = field(default_factory=dict)
    cpu_ms: tuple[float, float, float] = (0.0, 0.0, 0.0)
    memory_mb: tuple[float, float] = (0.0, 0.0)
    tokens: int = 0
    missing: int = 0


async def measure(running: Running, relay: Listener) -> Found:
    found = Found()
    for count in BURSTS:
        viewers, relays = running.viewers(count), [RelayViewer(relay.address) for _ in range(count)]
        await open_all([*viewers, *relays])
        try:
            await _ask(found, viewers[:5], 3)  # what is loaded at the first message
            firsts: tuple[list[float], list[float]] = ([], [])
            for _ in range(_ROUNDS[count]):
                firsts[1].extend(await _ask(Found(), relays, _TOKENS))
                firsts[0].extend(await _ask(found, viewers, _TOKENS))
            found.first_ms[count] = (p50(firsts[0]), p50(firsts[1]))
            if count == _TURNS_AT:
                await _measure_turns(found, running, relay, viewers, relays)
        finally:
            close_all([*viewers, *relays])
    return found


async def _measure_turns(
    found: Found, running: Running, relay: Listener, viewers: Sequence[Viewer], relays: Sequence[Viewer]
) -> None:
    meter, turns = CpuMeter({"relay": relay.pid}), len(viewers)
    await _ask(Found(), relays, _LONG)
    of_relay = meter.read()["relay"]
    pids = running.pids()
    server, database = CpuMeter(pids), CpuMeter(running.database_pids())
    await _ask(found, viewers, _LONG)
    await asyncio.sleep(1)  # what follows the last token belongs to the turn
    used = (sum(server.read().values()), sum(database.read().values()), of_relay)
    found.cpu_ms = tuple(seconds * 1000 / turns for seconds in used)  # type: ignore[assignment]
    found.memory_mb = (sum(map(resident_bytes, pids.values())) / 1e6, proportional_bytes(pids) / 1e6)


async def _ask(found: Found, viewers: Sequence[Viewer], tokens: int) -> list[float]:
    """Send a message from each viewer at once. Return the times to the first tokens that came; count all tokens."""
    tallies = await asyncio.gather(*(_tally(viewer, tokens) for viewer in viewers))
    found.tokens += tokens * len(viewers)
    found.missing += sum(max(0, tokens - len(tally.lags_ms)) for tally in tallies)
    return [tally.first_ms for tally in tallies if tally.lags_ms]


async def _tally(viewer: Viewer, tokens: int) -> Tally:
    tally = viewer.expect(tokens)
    try:
        async with asyncio.timeout(tokens / RATE + _LATE_SECONDS):
            await viewer.send(message(tokens))
            await tally.done
    except (TimeoutError, Refused, OSError) as error:
        print(f"  an answer is not whole: {error!r}", file=sys.stderr)
    return tally


def row(subject: Subject, found: Found) -> str:
    ratios = " / ".join(f"{ours / relay:.1f}" for ours, relay in found.first_ms.values())
    times = " / ".join(f"{ours:,.0f}" for ours, _ in found.first_ms.values())
    server, database, relay = found.cpu_ms
    cpu = f"{server:.0f}{f' + {database:.0f}' if database else ''} ms ({(server + database) / relay:.1f} ×)"
    memory = " / ".join(f"{one:.0f}" for one in found.memory_mb)
    missing = f"{found.missing} of {found.tokens:,}"
    return f"| {subject.name} | {ratios} × ({times} ms) | {cpu} | {memory} MB | {missing} | {subject.stores} |"


def parse(argv: Sequence[str]) -> argparse.Namespace:
    names = ", ".join(f"“{subject.name}”" for subject in SUBJECTS)
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("servers", nargs="*", metavar="server", help=f"the beginning of a name, of {names}")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="virtualenvs of the peers (%(default)s)")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    options, rows, loads = parse(argv), [], []
    subjects = [one for one in SUBJECTS if one.name.startswith(tuple(options.servers or [""]))]
    model_server = ("tests.fakes.model_server", "--port", "0")
    with tempfile.TemporaryDirectory(prefix="komand-peers-") as folder, Listener(*model_server) as model:
        for number, subject in enumerate(subjects):
            loads.append(f"{subject.name} {load_average():.1f}")
            print(f"{loads[-1]} (load average)", file=sys.stderr, flush=True)
            try:
                with (
                    Listener("benchmarks.relay", "--model-url", model.url) as relay,
                    subject.start(Path(folder) / str(number), options.cache, model) as running,
                ):
                    rows.append(row(subject, asyncio.run(measure(running, relay))))
            except (NotInstalled, NotStarted) as problem:
                print(problem, file=sys.stderr)
                state = "not installed" if isinstance(problem, NotInstalled) else "not started"
                rows.append(f"| {subject.name} | {state} | | | | {subject.stores} |")
    versions = ", ".join(packages[0].replace("==", " ") for packages in PACKAGES.values())
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print("\n".join((_HEAD, *rows, "", f"{machine}; {versions}; load average before each: {', '.join(loads)}")))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
