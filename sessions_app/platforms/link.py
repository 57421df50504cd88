"""Receiving over a connection that an adapter opens itself: what it reports, and with which errors it ends. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from audit_app.kernel.errors import AppError
from sessions_app.platforms.messages import ChannelEvent


@dataclass(frozen=True)
class Received:
    """An event with the payload that it was parsed from."""

    event: ChannelEvent
    raw: bytes


class Link(Protocol):
    """The gateway's end of an account's connection, as `ChannelAdapter.listen` uses it."""

    @property
    def cursor(self) -> str:
        """The cursor that was stored last, from which to resume; empty at first."""

    async def deliver(self, received: Sequence[Received], cursor: str) -> None:
        """Store a batch of events in order, and then the cursor. Counts as a heartbeat.

        Returns when both are stored, however long the database is away: acknowledge the batch to the platform only
        then. A batch that is delivered again, for example after a crash between the two, has no effect.
        """

    def heartbeat(self) -> None:
        """Report that the platform has answered or sent something, perhaps nothing new: the connection works."""


class ConnectionLost(AppError):
    """The connection ended or could not be opened. It is opened again, after a back-off.

    retry_after_seconds: the shortest wait, if the platform asked for one.
    """

    code = "connection_lost"

    def __init__(self, message: str, *, retry_after_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class NeedsAttention(AppError):
    """Nothing can be received until an operator acts. No attempt follows until they change or test the account.

    The message states the problem and the remedy.
    """

    code = "needs_attention"


class CredentialsRefused(NeedsAttention):
    """The platform refuses the account's secrets."""

    code = "credentials_refused"
