"""The people behind the actors of runs, and what they hold of memories. `sessions_app` knows them, by a port."""

from typing import Protocol
from uuid import UUID

from tools_app.storage.memories import Holder


class Persons(Protocol):
    """The port to the people behind actors, which `sessions_app` implements."""

    def remembered_as(self, session_id: UUID, actor: str) -> str:
        """Return the actor under whom memories of an actor of the session are stored: the linked user, or the actor."""
        ...

    def find_user(self, session_id: UUID, actor: str) -> int | None:
        """Return the id of the user who is the actor, or with whom the sender is linked or paired."""
        ...


_registered: list[Persons] = []


def register(persons: Persons) -> None:
    _registered[:] = [persons]


def holder_of(agent_id: str, session_id: UUID, actor: str) -> Holder:
    """Return the holder of the memories of a run."""
    for persons in _registered:
        actor = persons.remembered_as(session_id, actor)
    return Holder(agent_id, actor)


def find_user(session_id: UUID, actor: str) -> int | None:
    """Return the id of the user behind the actor of a run in this session."""
    return next((persons.find_user(session_id, actor) for persons in _registered), None)
