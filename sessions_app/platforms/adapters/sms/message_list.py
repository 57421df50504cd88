"""Polling of Twilio's list of messages, for accounts without a webhook.

The cursor is the creation time of the newest message that was delivered, and the ids of the last ones. Each request
overlaps the one before: messages can appear in the list later than newer ones.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from sessions_app.platforms.adapters.sms.form import read_fields
from sessions_app.platforms.base import SendError
from sessions_app.platforms.link import ConnectionLost, CredentialsRefused, Link, Received

# Messages of this time before the first connection are received as well: somebody may have tried the number already.
_BEFORE_START = timedelta(minutes=10)
_OVERLAP = timedelta(minutes=5)
_LONGEST_PAUSE_SECONDS = 60.0  # each answer is a heartbeat: longer ones would look like a broken connection
_PAGE, _MOST_PAGES, _MOST_BYTES = 100, 50, 8 * 1024 * 1024

Fetch = Callable[..., Awaitable[Any]]


async def poll(fetch: Fetch, link: Link, numbers: frozenset[str], now: Callable[[], datetime], seconds: float) -> None:
    """Receive messages until cancelled.

    fetch: returns the JSON of a path.
    seconds: between two requests.

    Raises ConnectionLost, CredentialsRefused.
    """
    cursor = json.loads(link.cursor) if link.cursor else {}
    newest = datetime.fromisoformat(cursor["newest"]) if cursor else now() - _BEFORE_START
    seen = {sid: datetime.fromisoformat(at) for sid, at in cursor.get("seen", {}).items()}
    while True:
        since = newest - _OVERLAP
        fresh = [item for item in await _list(fetch, numbers, since) if item["sid"] not in seen]
        link.heartbeat()
        if fresh:
            received = [await _received(fetch, item, numbers) for item in fresh]
            newest = max(newest, *map(_created, fresh))
            known = {**seen, **{item["sid"]: _created(item) for item in fresh}}
            seen = {sid: at for sid, at in known.items() if at >= newest - _OVERLAP}
            stored = {"newest": newest.isoformat(), "seen": {sid: at.isoformat() for sid, at in seen.items()}}
            await link.deliver(received, json.dumps(stored))
        await asyncio.sleep(min(seconds, _LONGEST_PAUSE_SECONDS))


async def _list(fetch: Fetch, numbers: frozenset[str], since: datetime) -> list[Mapping[str, Any]]:
    """Return the messages to our numbers since then, oldest first."""
    found: list[Mapping[str, Any]] = []
    for number in sorted(numbers):
        query = {"To": number, "DateSent>": f"{since - timedelta(days=1):%Y-%m-%d}", "PageSize": str(_PAGE)}
        path = "/Messages.json"
        for _ in range(_MOST_PAGES):
            page = await _call(fetch, path, query)
            items = page["messages"]
            found += [item for item in items if item["direction"] == "inbound" and _created(item) >= since]
            path, query = str(page.get("next_page_uri") or ""), {}
            if not path or not items or _created(items[-1]) < since:  # the list begins with the newest
                break
    found.reverse()  # those of the same second keep their order
    return sorted(found, key=_created)


async def _received(fetch: Fetch, item: Mapping[str, Any], numbers: frozenset[str]) -> Received:
    """Return the event of a message of the list, as if it had come to the webhook."""
    fields = {"MessageSid": item["sid"], "From": item["from"], "To": item["to"], "Body": item["body"] or ""}
    if int(item.get("num_media") or 0):
        media = await _call(fetch, f"/Messages/{item['sid']}/Media.json", {})
        for number, file in enumerate(media["media_list"]):
            fields[f"MediaUrl{number}"] = file["uri"].removesuffix(".json")
            fields[f"MediaContentType{number}"] = file["content_type"]
        fields["NumMedia"] = str(len(media["media_list"]))
    return Received(read_fields(fields, numbers, _created(item)), json.dumps(item).encode())


async def _call(fetch: Fetch, path: str, query: Mapping[str, str]) -> Any:
    try:
        return await fetch(path, params=query, most_bytes=_MOST_BYTES)
    except SendError as error:
        if error.ends_account:
            problem = "Twilio refuses the credentials: copy the account SID and the auth token again from its console."
            raise CredentialsRefused(problem) from None
        raise ConnectionLost(error.message, retry_after_seconds=error.retry_after_seconds or 0.0) from None


def _created(item: Mapping[str, Any]) -> datetime:
    return parsedate_to_datetime(item["date_created"])
