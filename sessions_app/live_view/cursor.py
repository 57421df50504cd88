"""The events that a viewer receives, and the cursor from which it resumes."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any
from uuid import UUID

from agents_app.events import REASONING_DELTA, TEXT_DELTA
from audit_app.follow.items import START, Position
from audit_app.kernel.errors import InvalidInput
from audit_app.timeline import KeptEvent

_CURSOR = re.compile(
    r"(?P<seq>[0-9]{1,18})(?:\.(?P<fence>[0-9]{1,18})-(?P<n>[0-9]{1,18})(?:-(?P<since>[0-9]{1,18}))?)?", re.ASCII
)
_JOINABLE = (TEXT_DELTA.name, REASONING_DELTA.name)


class Children(Enum):
    """The events of child runs that a viewer receives.

    ASKING: requests to people and the states of workstreams, as events of the active run.
    STORED: all stored events.
    ALL: also live text.
    """

    ASKING = "asking"
    STORED = "stored"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """One event as a viewer receives it.

    cursor: resumes after this event.
    seq, ts: set for stored events only.

    type: a type declared in the `events` modules.
    payload: as the type declares it.
    parent_run_id, workstream: of a stored event of a child run.
    """

    type: str
    session_id: UUID
    run_id: UUID | None
    step: int | None
    payload: dict[str, Any]
    cursor: str
    seq: int | None = None
    ts: int | None = None
    parent_run_id: UUID | None = None
    workstream: str = ""

    @property
    def is_partial(self) -> bool:
        """Return whether text of earlier claims of the run was left out (`Cursor.since`)."""
        return self.cursor.count("-") > 1

    @classmethod
    def of(cls, event: KeptEvent, cursor: str = "") -> "SessionEvent":
        """Return a stored event as viewers receive it. cursor: empty if no viewer can resume there."""
        return cls(
            event.type,
            event.session_id,
            event.run_id,
            event.step,
            event.payload,
            cursor,
            event.seq,
            event.ts,
            event.parent_run_id,
            event.workstream,
        )


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position in a session, from which a viewer resumes.

    seq: the last stored event that the viewer has seen.
    live: the last entry seen of the stream of the root run that was active then. None: unknown, so the viewer may or
    may not show some of that run's open text.
    since: the first claim of which the viewer has live text; 0 if it was shown all of them.
    """

    seq: int = 0
    live: Position | None = START
    since: int = 0

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """Parse `""` (nothing seen), `"<seq>"` or `"<seq>.<fence>-<n>[-<since>]"`.

        Raises InvalidInput (invalid_cursor).
        """
        if not text:
            return cls()
        match = _CURSOR.fullmatch(text)
        if match is None:
            raise InvalidInput("The cursor is invalid. Send one that the server returned.", code="invalid_cursor")
        live = (int(match["fence"]), int(match["n"])) if match["n"] else None
        return cls(int(match["seq"]), live, int(match["since"] or 0))


def join_pieces(events: Iterable[SessionEvent]) -> list[SessionEvent]:
    """Return the events with consecutive pieces of one text merged."""
    joined: list[SessionEvent] = []
    for event in events:
        last = joined[-1] if joined else None
        if last is not None and _continues(last, event):
            payload = {**last.payload, "text": last.payload["text"] + event.payload["text"]}
            joined[-1] = replace(last, payload=payload, cursor=event.cursor)
        else:
            joined.append(event)
    return joined


def _continues(last: SessionEvent, event: SessionEvent) -> bool:
    return (
        event.type in _JOINABLE
        and (last.type, last.run_id, last.step) == (event.type, event.run_id, event.step)
        and last.payload["offset"] + len(last.payload["text"]) == event.payload["offset"]
    )
