"""A token endpoint of OAuth 2.0 over real HTTP: it gives access tokens for one refresh token."""

import json
from typing import Any
from urllib.parse import parse_qsl

from tests.fakes.http_protocol import HttpRequest
from tests.fakes.http_server import FakeServer

CLIENT_ID, REFRESH_TOKEN = "client-1", "refresh-1"


class FakeTokenEndpoint(FakeServer):
    """The endpoint. The access tokens are access-1, access-2 and so on.

    asked: the form of each request. valid: the refresh tokens that it takes. renewed: the one that it returns, if any.
    seconds: the lifetime of access tokens.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[dict[str, str]] = []
        self.valid = [REFRESH_TOKEN]
        self.renewed = ""
        self.seconds: Any = 3600

    def take(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes]:
        form = dict(parse_qsl(request.body.decode()))
        self.asked.append(form)
        if form.get("grant_type") != "refresh_token" or form.get("refresh_token") not in self.valid:
            return self._answer(400, error="invalid_grant", error_description="The token has been revoked.\nTrace 7")
        if form.get("client_id") != CLIENT_ID:
            return self._answer(401, error="invalid_client")
        more = {"refresh_token": self.renewed} if self.renewed else {}
        token = f"access-{len(self.asked)}"
        return self._answer(200, access_token=token, token_type="Bearer", expires_in=self.seconds, **more)

    @staticmethod
    def _answer(status: int, **fields: Any) -> tuple[int, dict[str, str], bytes]:
        return status, {"content-type": "application/json"}, json.dumps(fields).encode()
