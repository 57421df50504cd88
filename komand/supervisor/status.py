"""`manage.py status`: the running parts of one data folder."""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

import psutil

from komand.settings import env
from komand.supervisor import embedded, preflight, probes, state

OTHER_FOLDER = "other folder"  # the health of a process that does not share the data folder
NOT_RUNNING = 3  # the exit code of init scripts (LSB)


@dataclass(frozen=True)
class Part:
    """A process with its health: ok | idle (not needed) | starting | restarting | down | hung | other folder.

    memory_bytes: shared pages in part, so that the sum of all parts counts them once.
    uptime_seconds: in the current state.
    """

    name: str
    pid: int | None
    health: str
    memory_bytes: int
    restarts: int
    uptime_seconds: int


def memory_of(pid: int | None) -> int:
    """Return the bytes of a process. Of a page that n processes share, 1/n counts for each (PSS), on Linux."""
    try:
        process = psutil.Process(pid) if pid else None
        with suppress(psutil.AccessDenied, AttributeError):
            return int(process.memory_full_info().pss) if process else 0
        return int(process.memory_info().rss) if process else 0
    except psutil.Error:
        return 0


def life_of(pid: int | None) -> str:
    """Return ok, hung or down, from the state that the operating system reports."""
    try:
        status = psutil.Process(pid).status() if pid else psutil.STATUS_DEAD
    except psutil.Error:
        return "down"
    if status in (psutil.STATUS_DEAD, psutil.STATUS_ZOMBIE):
        return "down"
    return "hung" if status in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP) else "ok"


async def _health(data_dir: Path, note: state.Note, process: state.ProcessNote) -> str:
    if process.state != "ready":
        return {"failed": "down", "stopped": "down"}.get(process.state, process.state)
    life = life_of(process.pid)
    if life != "ok":
        return life
    if process.name == "valkey":
        return "ok" if await embedded.answers(data_dir, Path(note.socket)) else "hung"
    if process.name == "web":
        answer = await probes.http_status(note.host, note.port, "/health/ready", 3)
        return {200: "ok", 0: "hung"}.get(answer, f"answers {answer}")
    return "ok"


def _children_of(part: Part) -> list[Part]:
    """Return the prefork children of a worker."""
    try:
        children = psutil.Process(part.pid).children() if part.pid else []
    except psutil.Error:
        return []
    now = time.time()
    return [
        Part(
            f"{part.name}/{number}",
            child.pid,
            life_of(child.pid),
            memory_of(child.pid),
            0,
            int(now - child.create_time()),
        )
        for number, child in enumerate(children, 1)
    ]


async def collect(data_dir: Path) -> tuple[state.Note | None, list[Part]]:
    """Return the supervisor's state and all parts, the supervisor first; (None, []) if it does not run."""
    note = state.read(data_dir) if preflight.is_locked(data_dir) else None
    if note is None:
        return None, []
    now = time.time()
    health = life_of(note.pid) if note.is_up else "starting"
    parts = [Part("supervisor", note.pid, health, memory_of(note.pid), 0, int(now - note.started_at))]
    for process in note.processes:
        health = await _health(data_dir, note, process)
        uptime = int(now - process.since)
        part = Part(process.name, process.pid, health, memory_of(process.pid), process.restarts, uptime)
        parts += [part, *_children_of(part)]
    return note, parts


def collect_unsupervised(data_dir: Path) -> list[Part]:
    """Return the processes that units of systemd or containers run, [] if none does. Loads Django."""
    if not env.text("DATABASE_URL") and not (data_dir / "alive").is_dir():
        return []
    os.environ["KOMAND_DATA_DIR"] = str(data_dir)
    try:
        found: list[Part] = import_module("komand.fleet").collect()
    except Exception as error:  # of the settings or the database, which this command only reads
        sys.stderr.write(f"komand: processes without a supervisor cannot be listed: {error}\n")
        return []
    return found


def table(parts: Sequence[Part]) -> str:
    width = max([11, *(len(part.name) for part in parts)]) + 1
    lines = [f"{'NAME':<{width}}{'PID':>8}  {'HEALTH':<12}{'MEMORY':>8}  {'RESTARTS':>8}  UPTIME"]
    for part in parts:
        memory, uptime = f"{part.memory_bytes / 1e6:.0f} MB", f"{part.uptime_seconds} s"
        lines.append(
            f"{part.name:<{width}}{part.pid or '-':>8}  {part.health:<12}{memory:>8}  {part.restarts:>8}  {uptime}"
        )
    lines.append(f"{'total':<{width}}{'':>8}  {'':<12}{sum(part.memory_bytes for part in parts) / 1e6:>5.0f} MB")
    return "\n".join(lines)


def main(argv: Sequence[str]) -> int:
    """Return exit code 0 if all parts are healthy, 1 if one is not, 3 if nothing runs."""
    parser = argparse.ArgumentParser(prog="manage.py status", description="Show the processes of an installation.")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--data-dir", type=Path, default=env.data_dir(), help="folder of all data (KOMAND_DATA_DIR, ./var)"
    )
    options = parser.parse_args(argv)
    data_dir = options.data_dir.expanduser().resolve()
    note, parts = asyncio.run(collect(data_dir))
    parts = parts if note else collect_unsupervised(data_dir)
    if options.json:
        report = {
            "running": bool(parts),
            "url": note.url if note else None,
            "processes": [asdict(part) for part in parts],
        }
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
    elif not parts:
        sys.stdout.write(f"Komand is not running on {data_dir}. Start it with: python manage.py up\n")
    else:
        place = f"Komand at {note.url}" if note else f"Komand on {data_dir}, without a supervisor of manage.py up"
        sys.stdout.write(f"{place}\n\n{table(parts)}\n")
        if any(part.health == OTHER_FOLDER for part in parts):
            sys.stdout.write(f"\nFiles of those with another folder than {data_dir} are not found by the rest: ")
            sys.stdout.write("mount one folder on all hosts as KOMAND_DATA_DIR, or set KOMAND_S3_BUCKET on all\n")
    if not parts:
        return NOT_RUNNING
    return 0 if all(part.health in ("ok", "idle") for part in parts) else 1
