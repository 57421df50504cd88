"""The hashes of entries, the signatures of seals and cuts, and anchors.

hash(n) = SHA-256(hash(n - 1) in hex, then the entry n as canonical JSON); hash(0) is 64 zeros. A seal signs the hash of
its last entry and so all entries before. A changed encoding needs new purposes in place of `… v1`.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from django.conf import settings

from audit_app.kernel import signing_keys
from audit_app.kernel.canonical_json import canonical_json
from audit_app.kernel.signing_keys import Validity
from audit_app.models import AuditCut, AuditEntry, AuditSeal

FIRST_HASH = "0" * 64

_SEAL, _CUT, _ANCHOR = "audit seal v1", "audit cut v1", "audit anchor v1"
_ANCHOR_TEXT = re.compile(
    r"\bka1\.(\d{1,18})\.(\d{1,18})\.([0-9a-f]{64})\.([0-9a-f]{8}\.[A-Za-z0-9_-]{43})(?![A-Za-z0-9_-])"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def hash_entry(previous: str, number: int, entry: AuditEntry) -> str:
    """Return the hash of an entry under this number. previous: the hash of the entry before it."""
    content = {
        "number": number,
        "id": str(entry.id),
        "action": entry.action,
        "actor": entry.actor,
        "agent_id": entry.agent_id,
        "session_id": str(entry.session_id or ""),
        "session_key": entry.session_key,
        "request_id": entry.request_id,
        "at": _microseconds(entry.at),
        "details": entry.details,
    }
    # JSON columns can hold lone surrogates, which plain UTF-8 cannot encode.
    return sha256(previous.encode() + canonical_json(content).encode("utf-8", "surrogatepass")).hexdigest()


def sign_seal(seal: AuditSeal) -> str:
    return _sign(_SEAL, _seal_fields(seal))


def check_seal(seal: AuditSeal) -> Validity:
    return _check(_SEAL, _seal_fields(seal), seal.signature)


def sign_cut(cut: AuditCut) -> str:
    return _sign(_CUT, _cut_fields(cut))


def check_cut(cut: AuditCut) -> Validity:
    return _check(_CUT, _cut_fields(cut), cut.signature)


@dataclass(frozen=True)
class Anchor:
    """A copy of a seal that is kept elsewhere, as one line of text. last, hash: of the last entry of the seal."""

    seal: int
    last: int
    hash: str
    signature: str

    @classmethod
    def of(cls, seal: AuditSeal) -> "Anchor":
        return cls(seal.number, seal.last, seal.hash, _sign(_ANCHOR, (seal.number, seal.last, seal.hash)))

    def __str__(self) -> str:
        return f"ka1.{self.seal}.{self.last}.{self.hash}.{self.signature}"

    def check(self) -> Validity:
        return _check(_ANCHOR, (self.seal, self.last, self.hash), self.signature)


def find_anchors(text: str) -> list[Anchor]:
    """Return the anchors in a text, such as the lines of a system log."""
    return [Anchor(int(found[1]), int(found[2]), found[3], found[4]) for found in _ANCHOR_TEXT.finditer(text)]


def _seal_fields(seal: AuditSeal) -> tuple[int | str, ...]:
    times = _microseconds(seal.newest_at), _microseconds(seal.sealed_at)
    return seal.number, seal.first, seal.last, seal.hash, *times


def _cut_fields(cut: AuditCut) -> tuple[int | str, ...]:
    return cut.seal, cut.last, cut.hash, _microseconds(cut.cut_at)


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def _sign(purpose: str, fields: tuple[int | str, ...]) -> str:
    return signing_keys.sign(settings.KOMAND_RECEIPT_KEYS, purpose, _encode(fields))


def _check(purpose: str, fields: tuple[int | str, ...], signature: str) -> Validity:
    return signing_keys.check(settings.KOMAND_RECEIPT_KEYS, purpose, _encode(fields), signature)


def _encode(fields: tuple[int | str, ...]) -> bytes:
    return "\n".join(str(field) for field in fields).encode()
