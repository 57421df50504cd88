"""Makes and checks receipts: a MAC over what a tool call was and what the model saw of its end. Pure.

A receipt reads `kr1.<key id>.<execution id>.<MAC>`. The MAC is HMAC-SHA256, base64url without padding, over fields that
each carry their length, so that no two calls are encoded alike. A change of the encoding is a new first word.
"""

import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Any
from uuid import UUID

from tools_app.receipts.canonical_json import canonical_json

_VERSION = "kr1"
_FORM = re.compile(r"kr1\.([0-9a-f]{8})\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.([A-Za-z0-9_-]{43})")
# A model may quote the whole line that it saw.
_LINE = re.compile(r"\s*(?:\[receipt: ([^\s\]]*)\]|(\S*))\s*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class CallState:
    """What a receipt covers. text: exactly what the model saw, without its receipt line; times: aware; started_at is
    None for a call that never began."""

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
    """A receipt taken apart; nothing of it is checked but its form."""

    key_id: str
    execution_id: UUID
    mac: str


def make_receipt(call: CallState, keys: str) -> str:
    """The receipt of a call that has ended, with the newest of the comma-separated keys."""
    key = key_ring(keys)[0]
    return f"{_VERSION}.{key.id}.{call.execution_id}.{_mac(call, key.secret)}"


def parse(text: str) -> Receipt | None:
    """The receipt in a text that holds nothing else, as it is or as the line `[receipt: …]`; None if there is none."""
    line = _LINE.fullmatch(text)
    found = _FORM.fullmatch(line[1] or line[2] or "") if line else None
    return Receipt(found[1], UUID(found[2]), found[3]) if found else None


def find_fault(receipt: Receipt, call: CallState, keys: str) -> str:
    """Why the receipt does not prove the call, in one sentence; empty when it does."""
    if receipt.execution_id != call.execution_id:
        return "The receipt is another execution's."
    secret = next((key.secret for key in key_ring(keys) if key.id == receipt.key_id), None)
    if secret is None:
        return f"The key {receipt.key_id} that made the receipt is not known here any more."
    if not hmac.compare_digest(_mac(call, secret), receipt.mac):
        return "What is stored is not what the receipt was made for: the receipt or the record was changed."
    return ""


@dataclass(frozen=True)
class Key:
    """id: tells the keys of an installation apart and nothing about the secret."""

    id: str
    secret: bytes


@lru_cache(maxsize=4)
def key_ring(keys: str) -> Sequence[Key]:
    """The keys of a comma-separated text, newest first. Raises ValueError when there is none."""
    texts = [text.strip().encode() for text in keys.split(",") if text.strip()]
    if not texts:
        raise ValueError("no receipt key is set")
    return tuple(Key(_derive(text, b"id").hex()[:8], _derive(text, b"mac")) for text in texts)


def _derive(text: bytes, purpose: bytes) -> bytes:
    return hmac.digest(text, b"komand receipts v1 " + purpose, "sha256")


def _mac(call: CallState, secret: bytes) -> str:
    return urlsafe_b64encode(hmac.digest(secret, encode(call), "sha256")).decode().rstrip("=")


def encode(call: CallState) -> bytes:
    """The fields one after the other, each behind its length in bytes as a big-endian 64-bit number."""
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
    """Whole microseconds since 1970: what databases keep of a time, without any rounding of our own."""
    return b"" if moment is None else str((moment - _EPOCH) // _MICROSECOND).encode()
