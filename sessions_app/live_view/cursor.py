"""What a watcher sees, and the cursor that says where it stands. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from agents_app.events import REASONING_DELTA, TEXT_DELTA
from audit_app.follow.items import START, Position
from audit_app.kernel.errors import InvalidInput
from audit_app.timeline import KeptEvent

_CURSOR = re.compile(r"(?P<seq>[0-9]{1,18})(?:\.(?P<fence>[0-9]{1,18})-(?P<n>[0-9]{1,18}))?", re.ASCII)
_JOINABLE = (TEXT_DELTA.name, REASONING_DELTA.name)


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """One fact as a watcher sees it.

    type: a kept type of the events modules, or text.delta, reasoning.delta, message.reset, snapshot, tool.started,
    tool.progress; payload: as the type declares; cursor: where to resume after it; seq and ts: kept facts only.
    """

    type: str
    session_id: UUID
    run_id: UUID | None
    step: int | None
    payload: dict[str, Any]
    cursor: str
    seq: int | None = None
    ts: int | None = None

    @classmethod
    def of(cls, event: KeptEvent, cursor: str = "") -> "SessionEvent":
        """A kept event. Without a cursor nobody resumes there."""
        return cls(event.type, event.session_id, event.run_id, event.step, event.payload, cursor, event.seq, event.ts)


@dataclass(frozen=True, slots=True)
class Cursor:
    """seq: the last kept event seen. live: the last entry seen of the stream of the root run that was active then;
    None when the watcher does not say, and may or may not show some of that run's open text."""

    seq: int = 0
    live: Position | None = START

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """From `""` (nothing seen), `"<seq>"` or `"<seq>.<fence>-<n>"`. Raises InvalidInput."""
        if not text:
            return cls()
        match = _CURSOR.fullmatch(text)
        if match is None:
            raise InvalidInput("The cursor is not one of ours.", code="invalid_cursor")
        live = (int(match["fence"]), int(match["n"])) if match["n"] else None
        return cls(int(match["seq"]), live)


def join_pieces(facts: Iterable[SessionEvent]) -> list[SessionEvent]:
    """The same with pieces of text that follow each other made one."""
    joined: list[SessionEvent] = []
    for fact in facts:
        last = joined[-1] if joined else None
        if last is not None and _continues(last, fact):
            payload = {**last.payload, "text": last.payload["text"] + fact.payload["text"]}
            joined[-1] = replace(last, payload=payload, cursor=fact.cursor)
        else:
            joined.append(fact)
    return joined


def _continues(last: SessionEvent, fact: SessionEvent) -> bool:
    return (
        fact.type in _JOINABLE
        and last.type == fact.type
        and last.step == fact.step
        and last.run_id == fact.run_id
        and last.payload["offset"] + len(last.payload["text"]) == fact.payload["offset"]
    )
