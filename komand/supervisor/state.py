"""The supervisor's state file `<data>/supervisor.json`, read by `manage.py status`."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class ProcessNote:
    """The state of one process. since: Unix time in seconds at which it entered the state."""

    name: str
    pid: int | None
    state: str
    restarts: int
    since: float


@dataclass(frozen=True)
class Note:
    """The supervisor's state.

    socket: socket of the embedded Valkey, empty if REDIS_URL is used.
    rolls: number of rolling restarts, with the failure of the last one, empty if it succeeded.
    is_up: the start has succeeded.
    """

    pid: int
    url: str
    host: str
    port: int
    socket: str
    started_at: float
    processes: tuple[ProcessNote, ...]
    rolls: int = 0
    roll_failure: str = ""
    is_up: bool = True


def _path(data_dir: Path) -> Path:
    return data_dir / "supervisor.json"


def write(data_dir: Path, note: Note) -> None:
    draft = _path(data_dir).with_suffix(".draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(asdict(note), file)
    draft.replace(_path(data_dir))


def read(data_dir: Path) -> Note | None:
    """Read the state file. Returns None if it is missing or cannot be parsed."""
    try:
        raw = json.loads(_path(data_dir).read_text())
        return Note(**{**raw, "processes": tuple(ProcessNote(**process) for process in raw["processes"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def remove(data_dir: Path) -> None:
    _path(data_dir).unlink(missing_ok=True)
