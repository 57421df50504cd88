"""What a living process leaves for others to see, whatever it is stored in."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID


@dataclass(frozen=True)
class Look:
    """One look at a process: is its lock held, and how far has it counted."""

    locked: bool
    beat: int


@dataclass(frozen=True)
class ProcessView:
    """One process that started the liveness beat. alive: its lock is held."""

    id: UUID
    name: str
    pid: int
    host: str
    alive: bool


class Mark(Protocol):
    """This process's own mark, written by its beat thread alone."""

    def beat(self, count: int) -> None:
        """Show the count. May raise when the store is away; the next call mends what it can."""

    def close(self) -> None:
        """Free the lock and remove the mark."""

    def abandon(self) -> None:
        """In a forked child: let go of what the fork copied without touching the parent's lock."""


class Marks(Protocol):
    """All marks of the installation."""

    def open(self, life_id: UUID, name: str) -> Mark:
        """A mark for this process."""

    def look(self, ids: Iterable[UUID]) -> dict[UUID, Look]:
        """The marks that exist among `ids`. Raises when the store is away."""

    def list_processes(self) -> list[ProcessView]:
        """Everyone, oldest first."""

    def remove(self, ids: Iterable[UUID]) -> None:
        """Remove those marks whose lock is free."""
