"""The port by which runs use conversations. `sessions_app` implements it and registers at start."""

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from agents_app.types import Message, RunTranscript, RunView
from audit_app.event_types import NewEvent


class Conversations(Protocol):
    def history(self, run: RunView) -> Sequence[Message]:
        """Return the messages before this run, oldest first. Reads only."""
        ...

    def user_turns(self, run_id: UUID) -> Sequence[str]:
        """Return the texts of the user turns that this run answers, oldest first."""
        ...

    def run_ended(self, transcript: RunTranscript) -> Sequence[NewEvent]:
        """Store the turns of an ended run and return the events to emit (`message.completed`, …). Idempotent.

        Called inside the transaction that ends the run, in a savepoint of its own.
        """
        ...

    def requesters(self, conversation_id: UUID, actor: str) -> set[str]:
        """Return the actors who ask in the conversation: the actor of a run, and the users behind it."""
        ...

    def take_ordinal(self, conversation_id: UUID) -> int:
        """Lock the conversation and return the next ordinal of its queue, in the caller's transaction."""
        ...


_registered: list[Conversations] = []


def register(conversations: Conversations) -> None:
    _registered[:] = [conversations]


def get() -> Conversations:
    if not _registered:
        raise RuntimeError("no conversations are registered: sessions_app is not installed")
    return _registered[0]
