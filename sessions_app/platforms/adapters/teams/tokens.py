"""JSON Web Tokens of the Bot Framework: its public keys, and the claims of its requests.

See https://learn.microsoft.com/azure/bot-service/rest-api/bot-framework-rest-connector-authentication.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import httpx2
import jwt

from sessions_app.platforms.base import SendError
from sessions_app.platforms.http import call

# The bot may have others, such as Web Chat, whose clients name their sender themselves.
_CHANNEL = "msteams"
_LEEWAY = timedelta(minutes=5)
_FRESH = timedelta(hours=24)
# The least time between two fetches: anybody can cause one by a request with an unknown key.
_AGAIN, _AGAIN_AFTER_FAILURE = timedelta(hours=1), timedelta(minutes=1)
_WAIT_SECONDS, _MOST_BYTES = 5.0, 512 * 1024


class Keys:
    """The public keys at one address. Old ones are kept while newer ones cannot be fetched."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._by_id: Mapping[str, Mapping[str, Any]] = {}
        self._fetched_at: datetime | None = None
        self._may_try_at: datetime | None = None
        self._is_fetching = False

    def find(self, key_id: str, now: datetime) -> Mapping[str, Any] | None:
        """Return a key; None if it is unknown, or if newer keys should be fetched first."""
        is_old = self._fetched_at is None or now - self._fetched_at > _FRESH
        return None if is_old and self._may_try(now) else self._by_id.get(key_id)

    async def fetch(self, client: httpx2.AsyncClient, now: datetime) -> bool:
        """Fetch the keys, unless it is too early for that. Returns whether there may be new ones. Raises nothing."""
        if self._is_fetching:
            await self._wait()
            return True
        if not self._may_try(now):
            return False
        self._is_fetching, self._may_try_at = True, now + _AGAIN_AFTER_FAILURE
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                response, body = await call(client, "GET", self._url, most_bytes=_MOST_BYTES)
            keys = {str(key["kid"]): key for key in json.loads(body)["keys"]} if response.is_success else {}
        except (SendError, TimeoutError, ValueError, KeyError, TypeError):
            keys = {}
        finally:
            self._is_fetching = False
        if keys:
            self._by_id, self._fetched_at, self._may_try_at = keys, now, now + _AGAIN
        return bool(keys)

    def _may_try(self, now: datetime) -> bool:
        return self._may_try_at is None or now >= self._may_try_at

    async def _wait(self) -> None:
        for _ in range(int(_WAIT_SECONDS / 0.05)):
            if not self._is_fetching:
                return
            await asyncio.sleep(0.05)


@dataclass(frozen=True)
class Expected:
    """The claims that a token must have. audience: our app id."""

    issuer: str
    audience: str


def is_proven(token: str, keys: Keys, expected: Expected, activity: Mapping[str, Any], now: datetime) -> bool:
    """Return whether the token was signed by the Bot Framework for us, for this service address, and is current."""
    try:
        header = jwt.get_unverified_header(token)
        key = keys.find(str(header.get("kid", "")), now)
        if header.get("alg") != "RS256" or key is None or _CHANNEL not in key.get("endorsements", ()):
            return False
        if activity.get("channelId") != _CHANNEL:
            return False
        options: Any = {"verify_exp": False, "verify_nbf": False, "verify_iat": False, "require": ["exp", "iss", "aud"]}
        claims = jwt.decode(
            token,
            jwt.PyJWK(dict(key), algorithm="RS256").key,
            algorithms=["RS256"],
            audience=expected.audience,
            issuer=expected.issuer,
            options=options,
        )
        ends, begins = int(claims["exp"]), int(claims.get("nbf", 0))
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return False
    service_url, at, leeway = str(activity.get("serviceUrl", "")), now.timestamp(), _LEEWAY.total_seconds()
    is_current = begins - leeway <= at <= ends + leeway
    # Our own token is sent to this address.
    return is_current and bool(service_url) and str(claims.get("serviceurl", "")).rstrip("/") == service_url.rstrip("/")
