"""Creates and checks receipts: a MAC over a tool call and the result that the model received. Pure.

Format: `kr1.<key id>.<execution id>.<MAC>`. The MAC is HMAC-SHA256 in base64url without padding (RFC 2104, RFC 4648
section 5), over length-prefixed fields, so that no two calls have the same encoding. A changed encoding needs a new
version in place of `kr1`.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

from audit_app.kernel.canonical_json import canonical_json
from audit_app.kernel.signing_keys import Validity, check, parse_keys

_VERSION = "kr1"
_PURPOSE = "mac"
_FORM = re.compile(r"kr1\.([0-9a-f]{8})\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.([A-Za-z0-9_-]{43})")
# Models may quote the whole receipt line.
_LINE = re.compile(r"\s*(?:\[receipt: ([^\s\]]*)\]|(\S*))\s*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class CallState:
    """The data that a receipt covers.

    text: exact result in the model's history, without the receipt line.
    started_at: None for a call that never started. All times are aware.
    """

    execution_id: UUID
    run_id: UUID
    tool: str
    arguments: dict[str, Any]
    status: str
    text: str
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None


@dataclass(frozen=True)
class Receipt:
    """A parsed receipt, not verified."""

    key_id: str
    execution_id: UUID
    mac: str


def make_receipt(call: CallState, keys: str) -> str:
    """Return the receipt of a call that has ended, signed with the newest of the comma-separated keys."""
    key = parse_keys(keys)[0]
    return f"{_VERSION}.{key.id}.{call.execution_id}.{key.mac(_PURPOSE, encode(call))}"


def parse(text: str) -> Receipt | None:
    """Return the receipt in a text that contains nothing else, plain or as the line `[receipt: …]`, or None."""
    line = _LINE.fullmatch(text)
    found = _FORM.fullmatch(line[1] or line[2] or "") if line else None
    return Receipt(found[1], UUID(found[2]), found[3]) if found else None


def find_fault(receipt: Receipt, call: CallState, keys: str) -> str:
    """Return why the receipt does not prove the call, as one sentence; empty if it does."""
    if receipt.execution_id != call.execution_id:
        return "The receipt belongs to another execution."
    validity = check(keys, _PURPOSE, encode(call), f"{receipt.key_id}.{receipt.mac}")
    if validity is Validity.UNKNOWN_KEY:
        return f"The key {receipt.key_id} that signed the receipt is no longer known here."
    if validity is Validity.FORGED:
        return "The receipt does not match the stored record: one of them was changed."
    return ""


def encode(call: CallState) -> bytes:
    """Return the fields, each prefixed by its length in bytes as a big-endian 64-bit number."""
    fields = [
        _VERSION.encode(),
        str(call.execution_id).encode(),
        str(call.run_id).encode(),
        call.tool.encode(),
        canonical_json(call.arguments).encode(),
        call.status.encode(),
        sha256(call.text.encode()).hexdigest().encode(),
        *(_microseconds(moment) for moment in (call.created_at, call.started_at, call.completed_at)),
    ]
    return b"".join(len(field).to_bytes(8, "big") + field for field in fields)


def _microseconds(moment: datetime | None) -> bytes:
    """Return whole microseconds since 1970, the resolution of the databases."""
    return b"" if moment is None else str((moment - _EPOCH) // _MICROSECOND).encode()
