"""Holders of the memories that a run reads and writes. `sessions_app` knows the users behind senders, by a port."""

from typing import Protocol
from uuid import UUID

from tools_app.storage.memories import Holder


class Persons(Protocol):
    """The port to the people behind actors, which `sessions_app` implements."""

    def remembered_as(self, session_id: UUID, actor: str) -> str:
        """Return the actor under whom memories of an actor of the session are stored: the linked user, or the actor."""
        ...


_registered: list[Persons] = []


def register(persons: Persons) -> None:
    _registered[:] = [persons]


def holder_of(agent_id: str, session_id: UUID, actor: str) -> Holder:
    """Return the holder of the memories of a run."""
    for persons in _registered:
        actor = persons.remembered_as(session_id, actor)
    return Holder(agent_id, actor)
