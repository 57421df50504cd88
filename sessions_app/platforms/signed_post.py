"""Requests that are signed by the Standard Webhooks specification, and when they are sent again."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import httpx2

from sessions_app.platforms.http import post
from sessions_app.platforms.signatures import sign

# Seconds before the second and later tries, three days in all, and the lifetime of a message.
RETRIES = (5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
LIFETIME_SECONDS = 4 * 86_400.0


async def post_signed(
    client: httpx2.AsyncClient,
    url: str,
    body: bytes,
    *,
    keys: Sequence[str],
    message_id: str,
    now: datetime,
    headers: Mapping[str, str] | None = None,
) -> httpx2.Response:
    """Post JSON and return the response, whatever its status. Raises SendError.

    keys: each makes a signature; without any the request has none.
    message_id: by which the receiver drops duplicates.
    """
    named = {
        "content-type": "application/json",
        "user-agent": "Komand",
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
    }
    if keys:
        named["webhook-signature"] = " ".join(sign(key, message_id, now, body) for key in keys)
    response, _ = await post(client, url, content=body, headers={**named, **(headers or {})})
    return response
