"""Marks beside SQLite: one file per process in `<DATA_DIR>/alive`, locked with `flock`."""

import fcntl
import json
import logging
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

from audit_app.kernel.liveness.process_marks import Look, ProcessView, Traits

logger = logging.getLogger(__name__)


class FileMark:
    """A locked file with name, pid, host and beat as JSON. The kernel frees the lock when the process ends.

    If it cannot be created, such as on a full disk, each beat tries again.
    """

    def __init__(self, folder: Path, life_id: UUID, name: str) -> None:
        self._path = folder / str(life_id)
        self._content = {"name": name, "pid": os.getpid(), "host": socket.gethostname()}
        self._descriptor: int | None = None
        try:
            self.beat(0)
        except OSError as error:
            logger.warning("the heartbeat starts without its file: %s", error)

    def beat(self, count: int, traits: Traits = Traits()) -> None:  # noqa: B008 - frozen
        if self._descriptor is not None and os.fstat(self._descriptor).st_nlink == 0:  # the file was removed
            self.abandon()
        if self._descriptor is None:
            self._descriptor = self._make(count)
        self._write(self._descriptor, count, traits)

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
        self.abandon()

    def abandon(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)  # closing a copy keeps the parent's lock; unlocking would not

    def _make(self, count: int) -> int:
        """Create the file, locked before it gets its name, so that no observer sees it free."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        unnamed = self._path.with_name(f".{self._path.name}")
        descriptor = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self._write(descriptor, count, Traits())
            unnamed.rename(self._path)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def _write(self, descriptor: int, count: int, traits: Traits) -> None:
        """Write in place: no content may be shorter than the one before."""
        stated = {"blind": int(traits.is_blind), "sweeps": int(traits.sweeps), "beat": count}
        os.pwrite(descriptor, json.dumps({**self._content, **stated}).encode(), 0)


class FileMarks:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, life_id: UUID, name: str) -> FileMark:
        return FileMark(self._folder, life_id, name)

    def look(self, ids: Iterable[UUID]) -> dict[UUID, Look]:
        looks, wanted = {}, set(ids)
        for life_id in self._ids():
            with self._opened(life_id) as descriptor:
                if descriptor is not None:
                    content = _content(descriptor)
                    traits = Traits(bool(content.get("blind")), bool(content.get("sweeps")))
                    if traits != Traits() or life_id in wanted:
                        looks[life_id] = Look(_is_locked(descriptor), int(content.get("beat", 0)), traits)
        return looks

    def list_processes(self) -> list[ProcessView]:
        views = []
        for life_id in sorted(self._ids()):
            with self._opened(life_id) as descriptor:
                if descriptor is not None and (content := _content(descriptor)):
                    alive = _is_locked(descriptor)
                    views.append(ProcessView(life_id, content["name"], content["pid"], content["host"], alive))
        return views

    def remove(self, ids: Iterable[UUID]) -> None:
        for life_id in ids:
            with self._opened(life_id) as descriptor:
                if descriptor is not None and not _is_locked(descriptor):
                    (self._folder / str(life_id)).unlink(missing_ok=True)

    def _ids(self) -> Iterator[UUID]:
        if not self._folder.is_dir():
            return
        for path in self._folder.iterdir():
            with suppress(ValueError):  # a file that is being created, or a foreign one
                yield UUID(path.name)

    @contextmanager
    def _opened(self, life_id: UUID) -> Iterator[int | None]:
        try:
            descriptor = os.open(self._folder / str(life_id), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            yield None
            return
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    """Return whether the owner holds the lock. Tries a shared lock, so that observers do not see each other."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


def _content(descriptor: int) -> dict[str, Any]:
    try:
        return dict(json.loads(os.pread(descriptor, 4096, 0)))
    except ValueError:  # read during a write: the next look reads it
        return {}
