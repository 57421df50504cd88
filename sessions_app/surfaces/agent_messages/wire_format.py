"""The wire form of a message: an object with short keys. Pure."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

MAIN = "main"  # workstream of the main agent, omitted on the wire

Compact = dict[str, Any]  # keys: t, m, w, d, f, ts, i
Details = Mapping[str, Any]


class AgentMessageType(IntEnum):
    SYSTEM, THOUGHT, PLAN, UPDATE, COMPLETE, WARNING, ERROR, ANSWER = range(8)
    QUESTION, REQUEST_INPUT, IDLE, TERMINATED, STREAMING_CHUNK, BATCH_PROGRESS, RESTARTING = range(8, 15)


def create(
    kind: int, message: str = "", *, workstream: str = "", details: Details | None = None, timestamp: float = 0
) -> Compact:
    """Return a message in the wire form, without empty fields. timestamp: milliseconds since 1970."""
    return without_none(
        {
            "t": int(kind),
            "m": message or None,
            "w": workstream if workstream and workstream != MAIN else None,
            "d": None if details is None else dict(details),
            "ts": timestamp or None,
        }
    )


def without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}
