"""The measured installation: a seeded gateway, the fake model and the bare relay."""

import asyncio
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.databases import Database, Databases
from benchmarks.processes import Gateway, Listener
from benchmarks.scale import Scale
from benchmarks.viewers import DirectViewer, GatewayViewer, RelayViewer, Viewer

LONG_TURNS = 1000
_POLL_SECONDS = 0.05


class NotFinished(Exception):
    """Runs did not end in time, or failed."""


@dataclass(frozen=True)
class Moments:
    """The times of a run, in seconds since 1970. claimed_at: first claim."""

    stored_at: float
    claimed_at: float


@dataclass(frozen=True)
class Installation:
    """A running gateway and the processes around it."""

    gateway: Gateway
    model: Listener
    relay: Listener
    seeded: dict[str, Any]
    database: Database

    def viewers(self, count: int) -> list[GatewayViewer]:
        """Return viewers of unused sessions."""
        taken = [self.seeded["sessions"].pop() for _ in range(count)]
        return [GatewayViewer(self.gateway.address, session, self.seeded) for session in taken]

    def watchers(self, of: GatewayViewer, count: int) -> list[GatewayViewer]:
        """Return more viewers of the session of another viewer."""
        return [of.beside() for _ in range(count)]

    def relay_viewers(self, count: int) -> list[Viewer]:
        return [RelayViewer(self.relay.address) for _ in range(count)]

    def direct_viewers(self, count: int) -> list[Viewer]:
        return [DirectViewer(self.model.address) for _ in range(count)]

    def pids(self) -> dict[str, int]:
        """Return all processes that take part, including this one, by name."""
        ours = {"model": self.model.pid, "relay": self.relay.pid, "client": os.getpid()}
        return {**{part.name: part.pid for part in self.gateway.parts()}, **ours}

    def moments(self, viewers: Sequence[GatewayViewer]) -> list[Moments]:
        """Return the times of each viewer's latest run."""
        rows, database = [], self.database
        times = f"{database.unix('created_at')}, {database.unix('started_at')}"
        query = f"SELECT {times} FROM komand_run WHERE conversation_id = ? ORDER BY ordinal DESC LIMIT 1"
        for viewer in viewers:
            rows += database.read(query, (database.key(viewer.session_id),))
        return [Moments(float(stored), float(claimed)) for stored, claimed in rows]

    async def count_open(self) -> int:
        """Return the number of runs that have not ended."""
        return int(self.database.number("SELECT count(*) FROM komand_run WHERE ended_at IS NULL"))

    async def all_ended(self, seconds: float = 120) -> float:
        """Wait until no run is open. Return the time at which the last one ended, in seconds since 1970.

        Raises NotFinished.
        """
        deadline = time.monotonic() + seconds
        while open_runs := await self.count_open():
            if time.monotonic() > deadline:
                raise NotFinished(f"{open_runs} runs have not ended after {seconds:.0f} s")
            await asyncio.sleep(_POLL_SECONDS)
        if failed := self.database.number("SELECT count(*) FROM komand_run WHERE status <> 'completed'"):
            raise NotFinished(f"{failed:.0f} runs failed")
        return self.database.number(f"SELECT max({self.database.unix('ended_at')}) FROM komand_run")


@contextmanager
def open_installation(
    folder: Path, model: Listener, scale: Scale, server: str, databases: Databases
) -> Iterator[Installation]:
    """Prepare, seed and start an installation; stop it at the end of the block."""
    data_dir = folder / "measured"
    database = databases.make(data_dir)
    with Listener("benchmarks.receiver") as receiver, Listener("benchmarks.relay", "--model-url", model.url) as relay:
        at = receiver.address
        environment = {**database.environment, "KOMAND_CALLBACK_ALLOW_PRIVATE": f"{at.host}:{at.port}"}
        gateway = Gateway(data_dir, model.url, server=server, **environment)
        gateway.prepare()
        size = ["--sessions", str(scale.sessions), "--turns", str(LONG_TURNS), "--callback", f"{receiver.url}/callback"]
        seeded = json.loads(gateway.run(["-m", "benchmarks.seed_data", *size]))
        with gateway:
            yield Installation(gateway, model, relay, seeded, database)
