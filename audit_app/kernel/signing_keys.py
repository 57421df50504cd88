"""The installation's signing keys (KOMAND_RECEIPT_KEYS), with which receipts and the audit log are signed. Pure."""

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache


@dataclass(frozen=True)
class Key:
    """A signing key. id: identifies it without revealing the secret."""

    id: str
    text: bytes = field(repr=False)

    def mac(self, purpose: str, content: bytes) -> str:
        """Return the HMAC-SHA256 of the content in base64url, under a secret derived for this purpose alone."""
        return urlsafe_b64encode(hmac.digest(_derive(self.text, purpose), content, "sha256")).decode().rstrip("=")


class Validity(StrEnum):
    """The result of checking a signature."""

    VALID = "valid"
    FORGED = "forged"
    UNKNOWN_KEY = "unknown key"


@lru_cache(maxsize=4)
def parse_keys(keys: str) -> Sequence[Key]:
    """Return the keys of a comma-separated text, newest first. Raises ValueError if there is none."""
    texts = [text.strip().encode() for text in keys.split(",") if text.strip()]
    if not texts:
        raise ValueError("no receipt key is set")
    return tuple(Key(_derive(text, "id").hex()[:8], text) for text in texts)


def sign(keys: str, purpose: str, content: bytes) -> str:
    """Return `<key id>.<MAC>` of the content, by the newest of the comma-separated keys."""
    key = parse_keys(keys)[0]
    return f"{key.id}.{key.mac(purpose, content)}"


def check(keys: str, purpose: str, content: bytes, signature: str) -> Validity:
    """Return whether the signature is that of the content."""
    key_id, _, mac = signature.partition(".")
    key = next((key for key in parse_keys(keys) if key.id == key_id), None)
    if key is None:
        return Validity.UNKNOWN_KEY
    return Validity.VALID if hmac.compare_digest(key.mac(purpose, content), mac) else Validity.FORGED


@lru_cache(maxsize=32)
def _derive(text: bytes, purpose: str) -> bytes:
    return hmac.digest(text, f"komand receipts v1 {purpose}".encode(), "sha256")
