"""The interface of marks: the lock and the counter of each process, whatever stores them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID


@dataclass(frozen=True)
class Traits:
    """Properties of a process, which it states itself.

    is_blind: it cannot read live text.
    sweeps: it has a reaper, which is not ending.
    """

    is_blind: bool = False
    sweeps: bool = False


@dataclass(frozen=True)
class Look:
    """One observation of a process: whether its lock is held, its counter, and its traits."""

    locked: bool
    beat: int
    traits: Traits = Traits()


@dataclass(frozen=True)
class ProcessView:
    """A process that started the heartbeat.

    alive: its lock is held.
    has_file: it has put its file into its data folder (see `shared_folder`).
    beat: its counter, on PostgreSQL.
    """

    id: UUID
    name: str
    pid: int
    host: str
    alive: bool
    has_file: bool = False
    beat: int = 0


class Mark(Protocol):
    """The mark of this process, written by its heartbeat thread alone."""

    def beat(self, count: int, traits: Traits = Traits()) -> None:
        """Store the count and the traits of this process.

        May raise if the store is unavailable; the next call restores the mark.
        """

    def close(self) -> None:
        """Free the lock and remove the mark."""

    def abandon(self) -> None:
        """In a forked child: close what the fork copied, without freeing the parent's lock."""


class Marks(Protocol):
    """All marks of the installation."""

    def open(self, life_id: UUID, name: str) -> Mark:
        """Create the mark of this process."""

    def look(self, ids: Iterable[UUID]) -> dict[UUID, Look]:
        """Return the observations of those `ids` that have a mark, and of all processes with a trait.

        Raises if the store is unavailable.
        """

    def list_processes(self) -> list[ProcessView]:
        """Return all processes with a mark, oldest first."""

    def remove(self, ids: Iterable[UUID]) -> None:
        """Remove those marks whose lock is free."""
