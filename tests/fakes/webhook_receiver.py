"""A program that receives, verifies and records signed callbacks over real HTTP. Faults on demand."""

import base64
import hashlib
import hmac
import json
import time
from dataclasses import dataclass
from typing import Any

from tests.fakes.http_protocol import HttpRequest
from tests.fakes.http_server import FakeServer

SECRET = "whsec_" + base64.b64encode(b"a secret of thirty-two bytes....").decode()


@dataclass
class Callback:
    id: str
    body: dict[str, Any]
    is_signed: bool


_SHOWN = {"message.created", "approval.requested"}


class WebhookReceiver(FakeServer):
    """A receiver of callbacks.

    callbacks: all that were accepted. messages: their texts, deduplicated by id. files: contents to download, by path.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.callbacks: list[Callback] = []
        self.files: dict[str, bytes] = {}

    @property
    def messages(self) -> list[str]:
        seen = {callback.id: callback for callback in self.callbacks if callback.body["type"] in _SHOWN}
        return [callback.body["data"]["text"] for callback in seen.values()]

    def take(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes]:
        if request.method == "GET":
            content = self.files.get(request.path)
            return (404, {}, b"") if content is None else (200, {}, content)
        signatures = request.headers.get("webhook-signature", "").split()
        message_id, at = request.headers.get("webhook-id", ""), request.headers.get("webhook-timestamp", "")
        is_signed = signature_of(message_id, at, request.body) in signatures
        self.callbacks.append(Callback(message_id, json.loads(request.body), is_signed))
        return 200, {}, b""


def signature_of(message_id: str, timestamp: str, body: bytes, secret: str = SECRET) -> str:
    """Sign, independently of the code under test."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


def signed_headers(message_id: str, body: bytes, *, at: float | None = None, secret: str = SECRET) -> dict[str, str]:
    timestamp = str(int(time.time() if at is None else at))
    return {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": signature_of(message_id, timestamp, body, secret),
    }
