"""The JSON encoding of the SignalR hub protocol: parsing and building of records. Pure.

Implements "Overview" (the handshake) and "JSON Encoding" of HubProtocol.md of ASP.NET Core. A record is one JSON
message with its terminator 0x1E. A frame contains whole records only: clients close a connection that sends a part of
one.
"""

import json
from typing import Any

from audit_app.kernel.errors import InvalidInput
from audit_app.kernel.json_text import as_json

END = "\x1e"
INVOCATION, STREAM_ITEM, COMPLETION, STREAM_INVOCATION, CANCEL_INVOCATION, PING, CLOSE = 1, 2, 3, 4, 5, 6, 7
LONGEST_RECORD = 256 * 1024

Record = dict[str, Any]


class RecordReader:
    """Splits received text into records."""

    def __init__(self) -> None:
        self._rest = ""

    def feed(self, text: str) -> list[Record]:
        """Return the records that the text completes. Raises InvalidInput for malformed and too long records."""
        *whole, self._rest = (self._rest + text).split(END)
        if len(self._rest) > LONGEST_RECORD:
            raise InvalidInput("The record is too long.", code="record_too_long")
        return [_read(record) for record in whole]


def frame(*records: Record) -> str:
    return "".join(as_json(record) + END for record in records)


def handshake_error(request: Record) -> str:
    """Return the reason to refuse a HandshakeRequest, or an empty text."""
    if request.get("protocol") != "json":
        return f"The protocol {request.get('protocol')!r} is not supported. Use json."
    if request.get("version") not in (0, 1, 2):  # some clients send 0 and mean 1
        return f"Version {request.get('version')!r} of the protocol is not supported. Use 1."
    return ""


def handshake_response(error: str = "") -> Record:
    return {"error": error} if error else {}


def invocation(target: str, *arguments: Any) -> Record:
    """Return a non-blocking invocation of one of the client's handlers."""
    return {"type": INVOCATION, "target": target, "arguments": list(arguments)}


def completion(invocation_id: str, *, result: Any = None, error: str = "") -> Record:
    outcome = {"error": error} if error else {"result": result}
    return {"type": COMPLETION, "invocationId": invocation_id, **outcome}


def stream_item(invocation_id: str, item: Any) -> Record:
    return {"type": STREAM_ITEM, "invocationId": invocation_id, "item": item}


def ping() -> Record:
    return {"type": PING}


def close(error: str = "", *, allow_reconnect: bool = False) -> Record:
    """Return a Close message. Without `allow_reconnect` clients do not reconnect automatically."""
    record: Record = {"type": CLOSE, **({"error": error} if error else {})}
    return {**record, "allowReconnect": True} if allow_reconnect else record


def _read(text: str) -> Record:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInput("A record is not valid JSON.", code="malformed_record") from None
    if not isinstance(record, dict):
        raise InvalidInput("A record must be a JSON object.", code="malformed_record")
    return record
