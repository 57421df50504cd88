"""The port by which runs use conversations. `sessions_app` implements it and registers at start."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from agents_app.types import Message, RunTranscript, RunView
from agents_app.types.context import Compaction
from agents_app.types.message_parts import OmittedPart, Transcript, VoiceNotes
from audit_app.event_types import NewEvent


@dataclass(frozen=True)
class StoredEnd:
    """The result of storing the end of a run in its conversation.

    events: events to emit.
    has_later_runs: False only if no later run of the conversation can be open.
    """

    events: Sequence[NewEvent]
    has_later_runs: bool = True


class Conversations(Protocol):
    def history(self, conversation_id: UUID, ordinal: int, *, longest: int) -> Sequence[Message]:
        """Return the messages before the run of this ordinal, oldest first. Reads only.

        The newest summary of the conversation comes first, if it has one, then pinned messages that it covers, then the
        messages that it does not cover. longest: characters of messages from which on older ones are left out.
        """
        ...

    def store_compaction(self, run: RunView, compaction: Compaction) -> None:
        """Store a summary that later histories begin with, in the caller's transaction."""
        ...

    def user_turns(self, run_id: UUID) -> Sequence[Message]:
        """Return the user turns that this run answers, oldest first."""
        ...

    def messages(
        self, run_id: UUID, conversation_id: UUID, ordinal: int, *, longest: int
    ) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
        """Return the `history` and the `user_turns` of an open run. Reads only."""
        ...

    def load_part(self, reference: str) -> bytes:
        """Return the bytes of a message's part. Raises NotFound. Reads the database and the disk."""
        ...

    def parts_omitted(self, run_id: UUID, omitted: Sequence[OmittedPart]) -> Sequence[NewEvent]:
        """Store that a model call of the run did not get these parts; return the events to emit. Idempotent.

        In the caller's transaction. Parts of earlier messages are ignored.
        """
        ...

    def voice_notes(self, run_id: UUID) -> VoiceNotes:
        """Return the audio files of the run's messages that may be transcribed and were not yet. Reads only."""
        ...

    def store_transcript(self, run_id: UUID, transcript: Transcript) -> Sequence[NewEvent]:
        """Store a transcription, or its failure, with the run's message; return the events to emit.

        In the caller's transaction, which holds the run.
        """
        ...

    def run_ended(self, transcript: RunTranscript) -> StoredEnd:
        """Store the turns of an ended run; the events to emit are `message.completed`, …. Idempotent.

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
