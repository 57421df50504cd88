"""Timelines and live streams, written as the engine does, for tests of their readers."""

import json
from typing import Any
from uuid import UUID

import redis
from django.db import transaction

from agents_app.events import MESSAGE_RESET, RUN_COMPLETED, RUN_QUEUED, RUN_STARTED
from audit_app import services, stream
from audit_app.event_types import EventType, NewEvent
from audit_app.kernel.database import in_db
from audit_app.kernel.ids import new_id
from tests.support.event_payloads import sample_payload

__all__ = ["MESSAGE_RESET", "RUN_COMPLETED", "RUN_QUEUED", "RUN_STARTED", "Conversation"]


class Conversation:
    """A session with runs. `keep` commits stored events, `live` appends to a run's stream.

    parent_run_id: set it to make its run a child run.
    """

    parent_run_id: UUID | None = None

    def __init__(self, valkey: "redis.Redis") -> None:
        self.id = new_id()
        self.run_id = new_id()
        self._valkey = valkey

    async def keep(
        self, *types: EventType[Any], step: int | None = None, run_id: UUID | None = None, **payload: Any
    ) -> None:
        run = run_id or self.run_id
        ids = {"run_id": run, "parent_run_id": self.parent_run_id}
        events = [NewEvent(type_, self.id, sample_payload(type_, **payload), **ids, step=step) for type_ in types]
        await in_db(_emit, events)

    def pass_on(self, event_type: EventType[Any], **payload: Any) -> None:
        """Send a live-only event."""
        stream.send_passing(NewEvent(event_type, self.id, sample_payload(event_type, **payload), run_id=self.run_id))

    def live(self, position: str, type_: str, step: int | None = None, **fields: Any) -> None:
        entry = {"type": type_, "step": step, **fields}
        self._valkey.xadd(stream.run_key(self.run_id), {"e": json.dumps(entry)}, id=position)

    def text(self, position: str, step: int, offset: int, text: str) -> None:
        self.live(position, "text.delta", step, offset=offset, text=text)


@transaction.atomic
def _emit(events: list[NewEvent]) -> None:
    services.emit(events)
