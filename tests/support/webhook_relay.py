"""A server whose requests reach the webhook of the gateway in this process, for platforms that run as programs."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from sessions_app.channels.inbound import webhook
from tests.fakes.http_protocol import HttpRequest, Response
from tests.fakes.http_server import FakeServer
from tests.support.channels import request as handle

Sign = Callable[[bytes], Mapping[str, str]]


class WebhookRelay(FakeServer):
    """The server. sign: returns further headers of a body. answers: status and path of each request, in order."""

    def __init__(self, sign: Sign = lambda body: {}) -> None:
        super().__init__()
        self.sign = sign
        self.answers: list[tuple[int, str]] = []

    async def _handle(self, request: HttpRequest, response: Response) -> None:
        webhook.known_accounts.forget()
        headers: dict[str, Any] = {**request.headers, **self.sign(request.body)}
        status, answer = await handle(request.path, request.body, headers, request.method)
        self.answers.append((status, request.path))
        response.whole(status, {"content-type": "application/json"}, json.dumps(answer).encode())
