"""A receiver of push notifications of A2A, which checks that each proves its origin."""

import base64
import hashlib
import json
from typing import Any

from tests.fakes.http_protocol import HttpRequest
from tests.fakes.http_server import FakeServer
from tests.fakes.webhook_receiver import signature_of

TOKEN, CREDENTIALS = "a token of this task", "secret-1"


class Inbox(FakeServer):
    """The receiver. updates: what was posted, once each. states: of them. is_good: each request has all proofs."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.requests: list[HttpRequest] = []

    def take(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes]:
        self.requests.append(request)
        return 200, {}, b""

    @property
    def updates(self) -> list[dict[str, Any]]:
        bodies = {request.headers["webhook-id"]: json.loads(request.body) for request in self.requests}
        return list(bodies.values())

    @property
    def states(self) -> list[str]:
        found = [update["statusUpdate"]["status"]["state"] for update in self.updates if "statusUpdate" in update]
        return [state.removeprefix("TASK_STATE_") for state in found]

    @property
    def is_good(self) -> bool:
        return all(map(_is_proved, self.requests))


def _is_proved(request: HttpRequest) -> bool:
    """Return whether a request has the signature, the token and the credentials. Independent of the code under test."""
    headers = request.headers
    secret = "whsec_" + base64.b64encode(hashlib.sha256(TOKEN.encode()).digest()).decode()
    signed = signature_of(headers["webhook-id"], headers["webhook-timestamp"], request.body, secret)
    return (
        headers["webhook-signature"] == signed
        and headers["x-a2a-notification-token"] == TOKEN
        and headers["authorization"] == f"Bearer {CREDENTIALS}"
        and headers["content-type"] == "application/a2a+json"
    )


def config(inbox: Inbox, **fields: Any) -> dict[str, Any]:
    authentication = {"scheme": "Bearer", "credentials": CREDENTIALS}
    return {"url": f"{inbox.url}/hook", "token": TOKEN, "authentication": authentication, **fields}
