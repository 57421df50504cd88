"""Encryption of a push message for a browser (RFC 8291, with the content encoding aes128gcm of RFC 8188). Pure."""

import os

from cryptography.exceptions import InvalidKey
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

AUTH_BYTES = 16  # of the secret of a browser
MOST_BYTES = 3_000  # of a message; push services take 4,096 encrypted
_SALT_BYTES, _RECORD_BYTES = 16, 4_096
_LAST_RECORD = b"\x02"


def read_public_key(raw: bytes) -> ec.EllipticCurvePublicKey:
    """Return a public key of P-256 from its uncompressed point. Raises ValueError."""
    try:
        return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), raw)
    except (InvalidKey, ValueError) as error:
        raise ValueError("not a point of P-256") from error


def point_of(key: ec.EllipticCurvePublicKey) -> bytes:
    """Return the uncompressed point of a public key, 65 bytes."""
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def encrypt(
    message: bytes,
    public_key: bytes,
    auth: bytes,
    *,
    own_key: ec.EllipticCurvePrivateKey | None = None,
    salt: bytes | None = None,
) -> bytes:
    """Return the body of a request to a push service. Raises ValueError for a message of more than MOST_BYTES.

    public_key, auth: of the browser.
    own_key, salt: made anew for each message; given by tests alone.
    """
    if len(message) > MOST_BYTES:
        raise ValueError(f"a push message has at most {MOST_BYTES} bytes")
    own_key, salt = own_key or ec.generate_private_key(ec.SECP256R1()), salt or os.urandom(_SALT_BYTES)
    own_point = point_of(own_key.public_key())
    shared = own_key.exchange(ec.ECDH(), read_public_key(public_key))
    secret = _derive(auth, shared, b"WebPush: info\0" + public_key + own_point, 32)
    key = _derive(salt, secret, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derive(salt, secret, b"Content-Encoding: nonce\0", 12)
    head = salt + _RECORD_BYTES.to_bytes(4) + bytes([len(own_point)]) + own_point
    return head + AESGCM(key).encrypt(nonce, message + _LAST_RECORD, None)


def _derive(salt: bytes, secret: bytes, info: bytes, length: int) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=length, salt=salt, info=info).derive(secret)
