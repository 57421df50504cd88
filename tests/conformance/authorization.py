"""The authorization of the conformance client: a person who grants all that an authorization server asks for."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
from mcp.client.auth import utils

from tools_app.mcp_client import oauth_flow
from tools_app.mcp_client.errors import NeedsAuthorization
from tools_app.mcp_client.oauth_flow import Target

_CALLBACK = "http://localhost:3000/callback"
_DOCUMENT = "https://conformance-test.local/client-metadata.json"  # that the suite expects


class _Everywhere(frozenset[str]):
    """The suite's servers are at any port of this machine."""

    def __contains__(self, pair: object) -> bool:
        return True


class Granting:
    """The tokens of one server, in memory. is_asked: whether the server demands an authorization."""

    def __init__(self, url: str, context: Mapping[str, Any]) -> None:
        self._url, self._context = url, context
        self._token = self._client = self._granted = self._missing = ""
        self.is_asked = False

    async def current(self) -> str:
        return self._token

    async def replacement(self, refused: str) -> str:
        return ""

    async def refused(self, response: httpx2.Response) -> NeedsAuthorization:
        self.is_asked = True
        demanded = utils.extract_scope_from_www_auth(response) or ""
        self._missing = demanded if response.status_code == 403 else ""
        return NeedsAuthorization(self._missing)

    async def authorize(self) -> None:
        """Obtain a token for what the server demands. Raises FlowError."""
        self.is_asked = False
        target = Target(
            self._url,
            _CALLBACK,
            reachable=_Everywhere(),
            client=self._client,
            client_id=self._context.get("client_id", ""),
            client_secret=self._context.get("client_secret", ""),
            document_url=_DOCUMENT,
            scope=f"{self._granted} {self._missing}".strip() if self._missing else "",
        )
        begun = await oauth_flow.begin(target)
        async with httpx2.AsyncClient(trust_env=False) as browser:
            answer = await browser.get(begun.url, follow_redirects=False)
        back = dict(parse_qsl(urlsplit(answer.headers["location"]).query))
        oauth_flow.check_issuer(begun.flow, back.get("iss"))
        tokens = await oauth_flow.complete(begun.flow, back["code"], _Everywhere())
        self._token, self._granted, self._client = tokens["access_token"], tokens["scope"], begun.flow["client"]
