"""The long form of messages, as clients of the agent-message protocol use it, and its conversions to the wire form."""

import json
from collections.abc import Mapping
from typing import Any

from sessions_app.surfaces.agent_messages.wire_format import MAIN, AgentMessageType, Compact

AgentMessage = dict[str, Any]  # keys: timestamp, workflow_run_id, type, message, details, workstream_id

# Clients do not know the last type by name or number when they read the long form.
_BY_NAME = {kind.name.lower(): kind for kind in AgentMessageType if kind is not AgentMessageType.RESTARTING}
_BY_NUMBER: dict[float, AgentMessageType] = {int(kind): kind for kind in _BY_NAME.values()}


class UnknownFormat(Exception):
    """Unknown message format"""


def normalise_type(value: Any) -> AgentMessageType:
    """Return the type that a client reads from the long form's `type`; UPDATE for an unknown one."""
    if isinstance(value, str):
        return _BY_NAME.get(value, AgentMessageType.UPDATE)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _BY_NUMBER.get(value, AgentMessageType.UPDATE)
    return AgentMessageType.UPDATE


def to_compact(message: Mapping[str, Any]) -> Compact:
    """Return the wire form of a message in the long form. Of a chunk's details only `is_final` is kept."""
    compact: Compact = {"t": int(normalise_type(message.get("type")))}
    for key, name in (("m", "message"), ("w", "workstream_id"), ("ts", "timestamp")):
        value = message.get(name)
        if _is_truthy(value) and not (key == "w" and value == MAIN):
            compact[key] = value
    details = message.get("details")
    if compact["t"] == AgentMessageType.STREAMING_CHUNK and _is_truthy(details):
        if isinstance(details, Mapping) and _is_truthy(details.get("is_final")):
            compact["f"] = 1
    elif _is_truthy(details):
        compact["d"] = details
    return compact


def to_agent_message(compact: Mapping[str, Any], run_id: str, now_ms: float) -> AgentMessage:
    """Return the long form of a wire message.

    run_id: the id that the client asked for, which is not on the wire.
    now_ms: the client's clock, for messages without a time.
    """
    timestamp = compact.get("ts")
    message: AgentMessage = {
        "type": compact["t"],
        "timestamp": timestamp if _is_truthy(timestamp) else now_ms,
        "workflow_run_id": run_id,
        "message": compact.get("m") or "",
        "workstream_id": compact.get("w") or MAIN,
    }
    details = compact.get("d")
    if details is not None:
        message["details"] = details
    if compact["t"] == AgentMessageType.STREAMING_CHUNK:
        message["details"] = _chunk_details(compact, details if isinstance(details, Mapping) else {})
    return message


def parse(data: str | Any) -> Compact:
    """Return the wire form of a message in either form, as JSON text or as a value.

    A message with `t` is returned as it is. Raises UnknownFormat, and ValueError for text that is not JSON.
    """
    parsed = json.loads(data) if isinstance(data, str) else data
    if isinstance(parsed, dict) and "t" in parsed:
        return parsed
    if isinstance(parsed, dict) and "type" in parsed:
        return to_compact(parsed)
    raise UnknownFormat(UnknownFormat.__doc__)


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


def _is_truthy(value: Any) -> bool:
    """Return whether JavaScript takes the value for true: an empty object is, an empty text is not."""
    return isinstance(value, dict | list) or bool(value)
