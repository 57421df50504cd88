"""Verification of requests: Standard Webhooks signatures over the raw bytes, and shared secrets. Pure.

The signatures follow the Standard Webhooks specification, https://github.com/standard-webhooks/standard-webhooks.
"""

import base64
import binascii
import hmac
import secrets
from collections.abc import Iterable
from datetime import datetime

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

TOLERANCE_SECONDS = 300
_SECRET, _PUBLIC = "whsec_", "whpk_"
_LEAST_BYTES, _MOST_BYTES = 24, 64
_MOST_SIGNATURES = 20


class BadKeyError(ValueError):
    """A configured key is malformed."""


def same_secret(given: str, expected: str) -> bool:
    """Return whether the secrets are equal, compared in constant time. An empty expected secret never matches."""
    return bool(expected) and hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def same_digest(given: str, secret: str, content: bytes, *, prefix: str = "") -> bool:
    """Return whether `given` is the prefix and the hexadecimal HMAC-SHA256 of the content under the secret."""
    return bool(secret) and same_secret(given, prefix + hmac.digest(secret.encode(), content, "sha256").hex())


def is_recent(timestamp: str, now: datetime) -> bool:
    """Return whether a time in seconds, as text, is within five minutes of now."""
    is_number = timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= len("99999999999")
    return is_number and abs(now.timestamp() - int(timestamp)) <= TOLERANCE_SECONDS


def make_secret() -> str:
    """Return a new Standard Webhooks secret."""
    return _SECRET + base64.b64encode(secrets.token_bytes(32)).decode()


def check_key(key: str, *, is_public: bool) -> None:
    """Check that a text is a Standard Webhooks secret, or public key. Raises BadKeyError."""
    if key.startswith(_PUBLIC) is not is_public:
        raise BadKeyError("A public key begins with whpk_, a secret with whsec_.")
    if is_public:
        _public_key(key)
    else:
        _secret_bytes(key)


def sign(key: str, message_id: str, sent_at: datetime, body: bytes) -> str:
    """Return the `webhook-signature` of a request that we send."""
    digest = hmac.digest(_secret_bytes(key), _signed_content(message_id, str(int(sent_at.timestamp())), body), "sha256")
    return "v1," + base64.b64encode(digest).decode()


def is_signed(
    keys: Iterable[str], *, message_id: str, timestamp: str, signatures: str, body: bytes, now: datetime
) -> bool:
    """Return whether one of the keys made one of the signatures over these bytes, within five minutes of now.

    keys: several while one replaces the other.
    timestamp, signatures: the headers as received.
    """
    if not message_id or "." in message_id or not is_recent(timestamp, now):
        return False
    content = _signed_content(message_id, timestamp, body)
    entries = [entry.partition(",") for entry in signatures.split(" ")[:_MOST_SIGNATURES]]
    given = [(version, raw) for version, comma, text in entries if comma and (raw := _decoded(text)) is not None]
    # Check all of them: the duration must not reveal which one matched.
    matches = [_matches(key, version, raw, content) for key in keys for version, raw in given]
    return any(matches)


def _matches(key: str, version: str, signature: bytes, content: bytes) -> bool:
    try:
        if not key.startswith(_PUBLIC):
            expected = hmac.digest(_secret_bytes(key), content, "sha256")
            return version == "v1" and hmac.compare_digest(signature, expected)
        if version == "v1a":
            _public_key(key).verify(signature, content)
        return version == "v1a"
    except (InvalidSignature, BadKeyError):
        return False


def _signed_content(message_id: str, timestamp: str, body: bytes) -> bytes:
    return f"{message_id}.{timestamp}.".encode() + body


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _key_bytes(text: str) -> bytes:
    raw = _decoded(text + "=" * (-len(text) % 4))
    if raw is None:
        raise BadKeyError("A key is not valid Base64.")
    return raw


def _secret_bytes(key: str) -> bytes:
    raw = _key_bytes(key.strip().removeprefix(_SECRET).rstrip("="))
    if not _LEAST_BYTES <= len(raw) <= _MOST_BYTES:
        raise BadKeyError(f"The secret has {len(raw)} bytes; it must have {_LEAST_BYTES} to {_MOST_BYTES}.")
    return raw


def _public_key(key: str) -> Ed25519PublicKey:
    try:
        return Ed25519PublicKey.from_public_bytes(_key_bytes(key.strip().removeprefix(_PUBLIC).rstrip("=")))
    except ValueError as error:
        raise BadKeyError("The public key is not an Ed25519 key.") from error
