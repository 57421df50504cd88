"""The port by which conversations send to channels. The outbox implements it; `komand.wiring` registers it.

Its methods write in the caller's transaction.
"""

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from sessions_app.conversation.citations import Citation
from sessions_app.models import Session

CitingText = tuple[str, Sequence[Citation]]


class Deliveries(Protocol):
    def plan_answer(
        self, session: Session, run_id: UUID, texts: Sequence[CitingText], *, failure: str = "", has_files: bool = True
    ) -> int:
        """Store the deliveries of a run's answer. Return their number, 0 if nothing is to be sent. Idempotent.

        failure: why the run failed, for the sender.
        has_files: the run may have written files.
        """
        ...

    def plan_run_notice(self, session: Session, run_id: UUID, key: str, markdown: str) -> None:
        """Store a notice for the sender of a run's message, if a channel's message led to the run.

        key: a second call does nothing.
        """
        ...


_registered: list[Deliveries] = []


def register(deliveries: Deliveries) -> None:
    _registered[:] = [deliveries]


def get() -> Deliveries:
    if not _registered:
        raise RuntimeError("no deliveries are registered: komand.wiring is not connected")
    return _registered[0]
