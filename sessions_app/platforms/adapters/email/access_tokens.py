"""Access tokens of OAuth 2.0 for a mailbox, fetched with a refresh token (RFC 6749, section 6)."""

import asyncio
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NoReturn
from urllib.parse import quote

from sessions_app.platforms.base import SendCertainty, SendError
from sessions_app.platforms.http import open_guarded_client, post
from sessions_app.platforms.json_api import as_object

GOOGLE = "https://oauth2.googleapis.com/token"
_MICROSOFT = "https://login.microsoftonline.com/{tenant}/oauth2/v2.0/token"
_MICROSOFT_SCOPES = (
    "https://outlook.office.com/IMAP.AccessAsUser.All https://outlook.office.com/SMTP.Send offline_access"
)
_GOOGLE_HOSTS, _MICROSOFT_HOSTS = (".gmail.com", ".googlemail.com"), (".office365.com", ".office.com", ".outlook.com")
# What an operator does about a server that refuses a token which its provider has just given.
REFUSED_ANEW = "the access token is not for this mailbox, or {protocol} is not allowed for it; see the guide"
_BEFORE_END = timedelta(minutes=5)
_DEFAULT_SECONDS = 3600.0  # of providers that do not state the lifetime
_PASSING = ("temporarily_unavailable", "server_error", "slow_down")
_OF_CLIENT = ("invalid_client", "unauthorized_client")


@dataclass(frozen=True)
class Grant:
    """The request for a token.

    url: the provider's token endpoint
    secret: of the client, empty for a public one
    """

    url: str
    client_id: str
    scopes: str = ""
    secret: str = field(default="", repr=False)
    refresh_token: str = field(default="", repr=False)

    @property
    def form(self) -> dict[str, str]:
        given = {"client_id": self.client_id, "client_secret": self.secret, "scope": self.scopes}
        fixed = {"grant_type": "refresh_token", "refresh_token": self.refresh_token}
        return fixed | {name: value for name, value in given.items() if value}


def endpoint_of(imap_host: str, tenant: str) -> tuple[str, str]:
    """Return the token endpoint of a provider whose servers are known, and the scopes to request; empty of others."""
    host = imap_host.lower()
    if host.endswith(_GOOGLE_HOSTS):
        return GOOGLE, ""
    if host.endswith(_MICROSOFT_HOSTS):
        return _MICROSOFT.format(tenant=quote(tenant, safe="")), _MICROSOFT_SCOPES
    return "", ""


def xoauth2(user: str, token: str) -> str:
    """Return the response of SASL's mechanism XOAUTH2, before it is encoded."""
    return f"user={user}\x01auth=Bearer {token}\x01\x01"


class AccessTokens:
    """The access token of one account, kept in memory until shortly before it ends. It belongs to one event loop.

    renewed: the refresh token that the provider returned last in place of ours; empty if it returned none.
    """

    def __init__(self, grant: Grant, reachable: Collection[str], clock: Callable[[], datetime]) -> None:
        self._grant, self._reachable, self._clock = grant, reachable, clock
        self._token, self._ends = "", clock()
        self._fetching = asyncio.Lock()
        self.renewed = ""

    async def get(self, refused: str = "") -> str:
        """Return a token. refused: one that a mail server did not accept, to be replaced. Raises SendError."""
        async with self._fetching:
            if self._token in ("", refused) or self._clock() >= self._ends:
                await self._fetch()
            return self._token

    async def _fetch(self) -> None:
        try:
            async with open_guarded_client(self._reachable) as client:
                response, body = await post(client, self._grant.url, data=self._grant.form)
        except SendError as error:
            if error.certainty is SendCertainty.UNKNOWN:  # of the token, which is no message
                error.certainty = SendCertainty.NOT_SENT
            raise
        answer = _read_object(body)
        token, seconds = answer.get("access_token"), answer.get("expires_in", _DEFAULT_SECONDS)
        if not (response.is_success and isinstance(token, str) and token):
            self._refuse(response.status_code, answer)
        lifetime = float(seconds) if isinstance(seconds, int | float) or str(seconds).isdecimal() else _DEFAULT_SECONDS
        self._token, self._ends = token, self._clock() + timedelta(seconds=lifetime) - _BEFORE_END
        renewed = str(answer.get("refresh_token") or "")
        self.renewed = renewed if renewed != self._grant.refresh_token else ""

    def _refuse(self, status: int, answer: Mapping[str, Any]) -> NoReturn:
        error, about = str(answer.get("error") or f"status {status}"), str(answer.get("error_description") or "")
        shown = f"{error}: {about.splitlines()[0]}"[:160] if about else error[:160]
        if status not in (400, 401, 403) or error in _PASSING:
            raise SendError(f"{self._grant.url} returned no access token ({shown}).", SendCertainty.NOT_SENT)
        of_client = "check oauth_client_id and oauth_client_secret"
        of_token = "allow access to the mailbox again and enter the new oauth_refresh_token"  # noqa: S105
        remedy = of_client if error in _OF_CLIENT else of_token
        problem = f"{self._grant.url} refuses an access token ({shown}): {remedy}."
        raise SendError(problem, SendCertainty.REFUSED, ends_account=True)


def _read_object(body: bytes) -> dict[str, Any]:
    try:
        return as_object(json.loads(body))
    except ValueError:
        return {}
