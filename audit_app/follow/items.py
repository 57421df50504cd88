"""The items that subscribers receive, and the decoding of Valkey's replies."""

import json
import logging
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from audit_app.timeline import KeptEvent

logger = logging.getLogger(__name__)

Position = tuple[int, int]
START: Position = (0, 0)


@dataclass(frozen=True, slots=True)
class LiveEntry:
    """An entry of a run's stream. position: (fence, n), its id."""

    run_id: UUID
    position: Position
    type: str
    step: int | None
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PassingEvent:
    """A live-only event that is in no stream and is never replayed."""

    type: str
    run_id: UUID | None
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """A sign that the read with this number read the timeline to its end (see `Subscription.request_read`)."""

    read: int


Item = KeptEvent | LiveEntry | PassingEvent | CaughtUp


@dataclass(frozen=True, slots=True)
class Hint:
    """An entry of the shared stream: the timeline now reaches `seq`, or a passing event."""

    session_id: UUID
    seq: int
    passing: PassingEvent | None


def parse_position(entry_id: bytes) -> Position:
    fence, _, n = entry_id.partition(b"-")
    return int(fence), int(n)


def format_position(position: Position) -> str:
    return f"{position[0]}-{position[1]}"


def parse_entry(run_id: UUID, entry_id: bytes, raw: dict[bytes, bytes]) -> LiveEntry | None:
    """Return the decoded entry, or None, after logging it, if it cannot be decoded."""
    try:
        fields = json.loads(raw[b"e"])
        return LiveEntry(run_id, parse_position(entry_id), fields.pop("type"), fields.pop("step", None), fields)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        logger.warning("entry %s of run %s cannot be read: %r", entry_id, run_id, error)
        return None


def parse_hint(raw: dict[bytes, bytes]) -> Hint | None:
    try:
        session_id = UUID(raw[b"s"].decode())
        if b"e" not in raw:
            return Hint(session_id, int(raw[b"q"]), None)
        fields = json.loads(raw[b"e"])
        run_id = fields.pop("run_id", None)
        return Hint(session_id, 0, PassingEvent(fields.pop("type"), UUID(run_id) if run_id else None, fields))
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        logger.warning("hint %r cannot be read: %r", raw, error)
        return None
