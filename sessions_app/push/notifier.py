"""The sender of notices to the push services of browsers, on an engine's loop, when it is nudged.

It holds no state that is not in the database. A notice that a dead process was sending is sent again: a browser shows
notifications with one tag once.
"""

import asyncio
import json
import logging
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

import httpx2
from django.conf import settings
from django.utils import timezone

from audit_app.kernel.database import in_db
from audit_app.kernel.outage import outages
from sessions_app import hot_queries
from sessions_app.models import PushNotice, PushSubscription
from sessions_app.platforms.base import SendError
from sessions_app.platforms.http import call, open_guarded_client
from sessions_app.push import encryption, notices, vapid
from sessions_app.push.browsers import decoded
from tools_app.secrets import vault

logger = logging.getLogger(__name__)

_MOST_AT_ONCE = 20
_HELD = timedelta(seconds=60)  # by the process that sends it
_PAUSES = (2, 10, 60, 300, 900)  # seconds before the next attempts
_GONE = (404, 410)  # the browser has ended its subscription (RFC 8030, section 7.3)
_LONGEST_SECONDS = 86_400  # that a push service keeps a notice for a browser that is away
_URGENCY = {"answer": "normal"}  # of RFC 8030, section 5.3; high for all others


@dataclass(frozen=True)
class _Sending:
    """A notice that this process sends, with the secrets of its browser."""

    row: PushNotice
    endpoint: str
    auth: str


async def run() -> None:
    """Send what is due, when nudged, until cancelled."""
    loop, nudged = asyncio.get_running_loop(), asyncio.Event()

    def notify() -> None:
        with suppress(RuntimeError):  # the loop has just ended
            loop.call_soon_threadsafe(nudged.set)

    notices.nudge.subscribe(notify)
    try:
        while True:
            await nudged.wait()
            nudged.clear()
            try:
                await _send_due()
            except Exception as error:
                outages.failed(logger, error, "notices for browsers cannot be sent; the next sweep retries")
    finally:
        notices.nudge.unsubscribe(notify)


async def _send_due() -> None:
    async with open_guarded_client(settings.KOMAND_CALLBACK_ALLOW_PRIVATE) as client:
        while found := await in_db(_claim_due):
            await asyncio.gather(*[_send(client, each) for each in found])


def _claim_due() -> list[_Sending]:
    """Return notices that are due, which other processes leave alone for a while."""
    if not hot_queries.FIND_DUE_NOTICE.rows():
        return []
    now, claimed = timezone.now(), []
    rows = PushNotice.objects.select_related("subscription").filter(due_at__lte=now).order_by("due_at")
    for row in rows[:_MOST_AT_ONCE]:
        if PushNotice.objects.filter(pk=row.pk, due_at=row.due_at).update(due_at=now + _HELD):
            try:
                endpoint = vault.unseal(row.subscription.endpoint_sealed)
                claimed.append(_Sending(row, endpoint, vault.unseal(row.subscription.auth_sealed)))
            except vault.SealError:
                _end(row)
    return claimed


async def _send(client: httpx2.AsyncClient, each: _Sending) -> None:
    row, browser = each.row, each.row.subscription
    seconds = min(int((row.expires_at - timezone.now()).total_seconds()), _LONGEST_SECONDS)
    if seconds <= 0:
        await in_db(_end, row)
        return
    message = json.dumps(row.payload, ensure_ascii=False).encode()
    body = encryption.encrypt(message, decoded(browser.public_key), decoded(each.auth))
    headers = {**_headers(row, seconds), "Authorization": vapid.authorization(each.endpoint)}
    try:
        response, _ = await call(client, "POST", each.endpoint, content=body, headers=headers)
        status = response.status_code
    except SendError as error:
        logger.info("notice %s was not sent: %s", row.pk, error)
        status = 0
    await in_db(_store, row, status)


def _headers(row: PushNotice, seconds: int) -> dict[str, str]:
    """Return the headers of RFC 8030 and 8291. seconds: that the push service may keep the notice."""
    return {
        "TTL": str(seconds),
        "Urgency": _URGENCY.get(row.kind, "high"),
        "Topic": row.payload["tag"],
        "Content-Type": "application/octet-stream",
        "Content-Encoding": "aes128gcm",
    }


def _store(row: PushNotice, status: int) -> None:
    """Store the outcome of an attempt. status: of the answer, 0 if there was none."""
    if status in _GONE:
        PushSubscription.objects.filter(pk=row.subscription_id).delete()
    elif 200 <= status < 300:
        _end(row)
        PushSubscription.objects.filter(pk=row.subscription_id).update(last_sent_at=timezone.now())
    elif (status == 0 or status == 429 or status >= 500) and row.attempts < len(_PAUSES):
        due_at = timezone.now() + timedelta(seconds=_PAUSES[row.attempts])
        PushNotice.objects.filter(pk=row.pk).update(due_at=due_at, attempts=row.attempts + 1)
    else:
        logger.warning("notice %s was given up: the push service answered with status %d", row.pk, status)
        _end(row)


def _end(row: PushNotice) -> None:
    PushNotice.objects.filter(pk=row.pk).update(due_at=None)
