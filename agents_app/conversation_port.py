"""The one port through which runs know conversations. `sessions_app` implements it and registers at start."""

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from agents_app.types import Message, RunTranscript, RunView
from audit_app.event_types import NewEvent


class Conversations(Protocol):
    def history(self, run: RunView) -> Sequence[Message]:
        """What was said before this run, oldest first. Synchronous, reads only."""
        ...

    def user_turns(self, run_id: UUID) -> Sequence[str]:
        """The user turns that this run answers, oldest first."""
        ...

    def run_ended(self, transcript: RunTranscript) -> Sequence[NewEvent]:
        """Store what the run said. Called inside the transaction that ends the run, in a savepoint of its own; a
        second call for the same run changes nothing. Returns the facts to emit (`message.completed`, …)."""
        ...

    def take_ordinal(self, conversation_id: UUID) -> int:
        """Lock the conversation and give out the next place in its queue, in the caller's transaction."""
        ...


_registered: list[Conversations] = []


def register(conversations: Conversations) -> None:
    _registered[:] = [conversations]


def get() -> Conversations:
    if not _registered:
        raise RuntimeError("no conversations are registered: sessions_app is not installed")
    return _registered[0]
