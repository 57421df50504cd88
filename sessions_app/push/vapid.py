"""The identification of this installation to push services (VAPID, RFC 8292)."""

import time
from base64 import urlsafe_b64encode
from functools import lru_cache
from urllib.parse import urlsplit

import jwt
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from sessions_app.push.encryption import point_of

_SECONDS = 12 * 3600  # of a token; at most a day
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256


def public_key() -> str:
    """Return the key by which a browser knows this installation: `applicationServerKey`, in base64url."""
    return _text(point_of(_key(settings.KOMAND_PUSH_KEY).public_key()))


def authorization(endpoint: str) -> str:
    """Return the header `Authorization` for a request to a push service."""
    address = urlsplit(endpoint)
    claims = {"aud": f"{address.scheme}://{address.netloc}", "exp": int(time.time()) + _SECONDS}
    if settings.KOMAND_PUBLIC_URL.startswith("https://"):
        claims["sub"] = settings.KOMAND_PUBLIC_URL
    token = jwt.encode(claims, _key(settings.KOMAND_PUSH_KEY), algorithm="ES256")
    return f"vapid t={token}, k={public_key()}"


@lru_cache(maxsize=2)
def _key(secret: str) -> ec.EllipticCurvePrivateKey:
    """Return the private key that is derived from a long random text."""
    # 16 bytes more than the order has: no scalar is more likely than others.
    raw = HKDF(algorithm=hashes.SHA256(), length=48, salt=None, info=b"komand push v1").derive(secret.encode())
    return ec.derive_private_key(int.from_bytes(raw) % (_ORDER - 1) + 1, ec.SECP256R1())


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")
