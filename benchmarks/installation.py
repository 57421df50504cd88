"""What every part but the start measures: a seeded gateway, the fake model and the bare relay, running together."""

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.processes import Gateway, Listener
from benchmarks.scale import Scale
from benchmarks.watching import DirectViewer, GatewayViewer, RelayViewer, Viewer

LONG_TURNS = 1000
_POLL_SECONDS = 0.05


class NotFinished(Exception):
    """Runs did not end in time, or did not end well."""


@dataclass(frozen=True)
class Moments:
    """When a run was stored and when it was claimed first, in seconds since 1970."""

    stored_at: float
    claimed_at: float


@dataclass(frozen=True)
class Installation:
    """A gateway that runs and what is around it."""

    gateway: Gateway
    model: Listener
    relay: Listener
    seeded: dict[str, Any]
    database: Path

    def viewers(self, count: int) -> list[GatewayViewer]:
        """Viewers of sessions that nobody has used yet."""
        taken = [self.seeded["sessions"].pop() for _ in range(count)]
        return [GatewayViewer(self.gateway.address, session, self.seeded) for session in taken]

    def relay_viewers(self, count: int) -> list[Viewer]:
        return [RelayViewer(self.relay.address) for _ in range(count)]

    def direct_viewers(self, count: int) -> list[Viewer]:
        return [DirectViewer(self.model.address) for _ in range(count)]

    def pids(self) -> dict[str, int]:
        """All processes that take part, this one too, by name."""
        ours = {"model": self.model.pid, "relay": self.relay.pid, "client": os.getpid()}
        return {**{part.name: part.pid for part in self.gateway.parts()}, **ours}

    def moments(self, viewers: Sequence[GatewayViewer]) -> list[Moments]:
        """Of each viewer's latest run."""
        times = f"{_unix('created_at')}, {_unix('started_at')}"
        query = f"SELECT {times} FROM komand_run WHERE conversation_id = ? ORDER BY ordinal DESC"
        with self._read() as database:
            return [
                Moments(*database.execute(query, (viewer.session_id.replace("-", ""),)).fetchone())
                for viewer in viewers
            ]

    async def all_ended(self, seconds: float = 120) -> float:
        """Wait until no run is open; returns when the last one ended, in seconds since 1970.

        Asks the database file itself, so that nothing measured is asked. Raises NotFinished.
        """
        deadline = time.monotonic() + seconds
        with self._read() as database:
            while (open_runs := _number(database, "SELECT count(*) FROM komand_run WHERE ended_at IS NULL")) > 0:
                if time.monotonic() > deadline:
                    raise NotFinished(f"{open_runs:.0f} runs have not ended after {seconds:.0f} s")
                await asyncio.sleep(_POLL_SECONDS)
            if failed := _number(database, "SELECT count(*) FROM komand_run WHERE status <> 'completed'"):
                raise NotFinished(f"{failed:.0f} runs did not end well")
            return _number(database, f"SELECT max({_unix('ended_at')}) FROM komand_run")

    def _read(self) -> closing[sqlite3.Connection]:
        return closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True))


def _unix(column: str) -> str:
    """A time in seconds since 1970, to the millisecond."""
    return f"((julianday({column}) - 2440587.5) * 86400.0)"


def _number(database: sqlite3.Connection, query: str) -> float:
    return float(database.execute(query).fetchone()[0] or 0)


@contextmanager
def open_installation(folder: Path, model: Listener, scale: Scale, server: str) -> Iterator[Installation]:
    """Prepare, seed and start; stop at the end."""
    data_dir = folder / "measured"
    gateway = Gateway(data_dir, model.url, server=server)
    gateway.prepare()
    seeding = ["-m", "benchmarks.seeding", "--sessions", str(scale.sessions), "--turns", str(LONG_TURNS)]
    seeded = json.loads(gateway.run(seeding))
    with gateway, Listener("benchmarks.relay", "--model-url", model.url) as relay:
        yield Installation(gateway, model, relay, seeded, data_dir / "komand.sqlite3")
