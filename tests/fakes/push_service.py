"""A push service and the browsers behind it: it checks what RFC 8030 and 8292 ask for, and they decrypt (RFC 8291)."""

import json
import os
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from typing import Any

import jwt
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.fakes.http_protocol import HttpRequest
from tests.fakes.http_server import FakeServer

_HEADERS = {"content-encoding": "aes128gcm", "content-type": "application/octet-stream"}


@dataclass
class PushBrowser:
    """A browser with a subscription. shown: the messages that it got, as JSON; gone: it has ended its subscription."""

    name: str
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    auth: bytes = field(default_factory=lambda: os.urandom(16))
    shown: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    gone: bool = False

    @property
    def point(self) -> bytes:
        return self.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    def fields(self, service: "PushService") -> dict[str, str]:
        """Return the subscription as the page sends it."""
        endpoint = f"{service.url}/push/{self.name}"
        return {"endpoint": endpoint, "p256dh": text_of(self.point), "auth": text_of(self.auth)}

    def decrypt(self, body: bytes) -> bytes:
        salt, size = body[:16], body[20]
        point, content = body[21 : 21 + size], body[21 + size :]
        shared = self.key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point))
        secret = _derived(self.auth, shared, b"WebPush: info\x00" + self.point + point, 32)
        key = _derived(salt, secret, b"Content-Encoding: aes128gcm\x00", 16)
        plain = AESGCM(key).decrypt(_derived(salt, secret, b"Content-Encoding: nonce\x00", 12), content, None)
        assert plain.endswith(b"\x02"), "the last record"
        return plain[:-1]


class PushService(FakeServer):
    """A push service. browsers: by name."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.browsers: dict[str, PushBrowser] = {}

    def add(self, name: str) -> PushBrowser:
        self.browsers[name] = PushBrowser(name)
        return self.browsers[name]

    def take(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes]:
        browser = self.browsers.get(request.path.rpartition("/")[2])
        if browser is None or browser.gone:
            return 410, {}, b""
        headers = request.headers
        wrong = [name for name, value in _HEADERS.items() if headers.get(name) != value]
        if wrong or not headers.get("ttl", "").isdecimal() or len(headers.get("topic", "")) > 32:
            return 400, {}, b"headers"
        if not self._is_signed(headers.get("authorization", "")):
            return 403, {}, b"not signed"
        browser.shown.append(json.loads(browser.decrypt(request.body)))
        browser.headers.append(dict(headers))
        return 201, {"location": f"{self.url}/message"}, b""

    def _is_signed(self, header: str) -> bool:
        scheme, _, rest = header.partition(" ")
        parts = dict(part.strip().split("=", 1) for part in rest.split(","))
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), bytes_of(parts["k"]))
        claims = jwt.decode(parts["t"], key, algorithms=["ES256"], audience=self.url)
        return scheme == "vapid" and claims["exp"] - time.time() <= 24 * 3600


def text_of(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


def bytes_of(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _derived(salt: bytes, secret: bytes, info: bytes, length: int) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=length, salt=salt, info=info).derive(secret)
