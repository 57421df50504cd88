"""The two forms of a message - short keys on the wire, long ones in clients - and the ways between them. Pure.

The rules are the protocol's own, with what each direction drops: servers and clients have to agree on that, too.
"""

import json
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from audit_app.kernel.errors import InvalidInput

MAIN = "main"

Compact = dict[str, Any]  # keys: t, m, w, d, f, ts, i
AgentMessage = dict[str, Any]  # keys: timestamp, workflow_run_id, type, message, details, workstream_id


class MessageType(IntEnum):
    SYSTEM = 0
    THOUGHT = 1
    PLAN = 2
    UPDATE = 3
    COMPLETE = 4
    WARNING = 5
    ERROR = 6
    ANSWER = 7
    QUESTION = 8
    REQUEST_INPUT = 9
    IDLE = 10
    TERMINATED = 11
    STREAMING_CHUNK = 12
    BATCH_PROGRESS = 13
    RESTARTING = 14


# Clients do not know the last type by name or number when they read the long form.
_BY_NAME = {kind.name.lower(): kind for kind in MessageType if kind is not MessageType.RESTARTING}
_BY_NUMBER: dict[float, MessageType] = {int(kind): kind for kind in _BY_NAME.values()}


class UnknownFormat(InvalidInput):
    """Unknown message format"""

    code = "unknown_message_format"


def create(
    kind: int,
    *,
    message: str = "",
    workstream: str = "",
    details: Mapping[str, Any] | None = None,
    is_final: bool = False,
    timestamp: float = 0,
) -> Compact:
    """A message in the wire form, without whatever says nothing. timestamp: milliseconds since 1970."""
    compact: Compact = {"t": int(kind)}
    if message:
        compact["m"] = message
    if workstream and workstream != MAIN:
        compact["w"] = workstream
    if details is not None:
        compact["d"] = dict(details)
    if is_final:
        compact["f"] = 1
    if timestamp:
        compact["ts"] = timestamp
    return compact


def normalise_type(value: Any) -> MessageType:
    """The type that a client reads from the long form's `type`; UPDATE for everything it does not know."""
    if isinstance(value, str):
        return _BY_NAME.get(value, MessageType.UPDATE)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _BY_NUMBER.get(value, MessageType.UPDATE)
    return MessageType.UPDATE


def to_compact(message: Mapping[str, Any]) -> Compact:
    """The wire form of a message in the long form. Of a chunk's details only `is_final` is kept."""
    compact: Compact = {"t": int(normalise_type(message.get("type")))}
    for key, name in (("m", "message"), ("w", "workstream_id"), ("ts", "timestamp")):
        value = message.get(name)
        if _says_something(value) and not (key == "w" and value == MAIN):
            compact[key] = value
    details = message.get("details")
    if compact["t"] == MessageType.STREAMING_CHUNK and _says_something(details):
        if isinstance(details, Mapping) and _says_something(details.get("is_final")):
            compact["f"] = 1
    elif _says_something(details):
        compact["d"] = details
    return compact


def to_agent_message(compact: Mapping[str, Any], run_id: str, now_ms: float) -> AgentMessage:
    """The long form of a wire message. run_id: the id that the client asked for, which is not on the wire; now_ms: the
    reader's clock, for messages that carry no time."""
    timestamp = compact.get("ts")
    message: AgentMessage = {
        "type": compact["t"],
        "timestamp": timestamp if _says_something(timestamp) else now_ms,
        "workflow_run_id": run_id,
        "message": compact.get("m") or "",
        "workstream_id": compact.get("w") or MAIN,
    }
    details = compact.get("d")
    if details is not None:
        message["details"] = details
    if compact["t"] == MessageType.STREAMING_CHUNK:
        message["details"] = _chunk_details(compact, details if isinstance(details, Mapping) else {})
    return message


def parse(data: str | Any) -> Compact:
    """Any form of a message, as JSON text or as a value, in the wire form. One that has `t` is taken as it is.

    Raises UnknownFormat, and ValueError for text that is not JSON.
    """
    parsed = json.loads(data) if isinstance(data, str) else data
    if isinstance(parsed, dict) and "t" in parsed:
        return parsed
    if isinstance(parsed, dict) and "type" in parsed:
        return to_compact(parsed)
    raise UnknownFormat


def _chunk_details(compact: Mapping[str, Any], details: Mapping[str, Any]) -> dict[str, Any]:
    named, activity = details.get("streaming_id"), compact.get("i")
    if activity is None and isinstance(details.get("activity_id"), str):
        activity = details["activity_id"]
    return {
        **details,
        "streaming_id": named if isinstance(named, str) else compact.get("w") or MAIN,
        "is_final": compact.get("f") == 1,
        **({"activity_id": activity} if activity else {}),
    }


def _says_something(value: Any) -> bool:
    """Whether the protocol's own language takes a value for true: an empty object is one, an empty text is not."""
    return isinstance(value, dict | list) or bool(value)
