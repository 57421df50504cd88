"""The JSON hub protocol: records in, records out. Pure.

Each record is a JSON object that ends with 0x1E. A frame holds whole records only: clients drop a connection that sends
half a one.
"""

import json
from typing import Any

from audit_app.kernel.errors import InvalidInput

END = "\x1e"
INVOCATION, STREAM_ITEM, COMPLETION, STREAM_INVOCATION, CANCEL_INVOCATION, PING, CLOSE = 1, 2, 3, 4, 5, 6, 7
LONGEST_RECORD = 256 * 1024

Record = dict[str, Any]


class RecordReader:
    """Cuts what arrives into records."""

    def __init__(self) -> None:
        self._rest = ""

    def feed(self, text: str) -> list[Record]:
        """Raises InvalidInput for what is no record, or an endless one."""
        *whole, self._rest = (self._rest + text).split(END)
        if len(self._rest) > LONGEST_RECORD:
            raise InvalidInput("The record is too long.", code="record_too_long")
        return [_read(record) for record in whole]


def frame(*records: Record) -> str:
    return "".join(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + END for record in records)


def check_handshake(record: Record) -> str:
    """Why the handshake cannot be accepted; empty when it can."""
    if record.get("protocol") != "json":
        return f"The protocol {record.get('protocol')!r} is not spoken here; json is."
    if record.get("version") not in (1, 2):
        return f"Version {record.get('version')!r} of the protocol is not spoken here."
    return ""


def handshake(error: str = "") -> Record:
    return {"error": error} if error else {}


def invocation(target: str, *arguments: Any) -> Record:
    """A call of the client's handlers; no answer is expected."""
    return {"type": INVOCATION, "target": target, "arguments": list(arguments)}


def completion(invocation_id: str, *, result: Any = None, error: str = "") -> Record:
    if error:
        return {"type": COMPLETION, "invocationId": invocation_id, "error": error}
    return {"type": COMPLETION, "invocationId": invocation_id, "result": result}


def stream_item(invocation_id: str, item: Any) -> Record:
    return {"type": STREAM_ITEM, "invocationId": invocation_id, "item": item}


def ping() -> Record:
    return {"type": PING}


def close(error: str = "", *, allow_reconnect: bool = False) -> Record:
    """Without `allow_reconnect` clients do not come back, whatever their policy."""
    said: Record = {"type": CLOSE}
    if error:
        said["error"] = error
    if allow_reconnect:
        said["allowReconnect"] = True
    return said


def _read(text: str) -> Record:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInput("A record is not valid JSON.", code="malformed_record") from None
    if not isinstance(record, dict):
        raise InvalidInput("A record is a JSON object.", code="malformed_record")
    return record
