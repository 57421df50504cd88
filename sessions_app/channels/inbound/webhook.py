"""The webhook of all channels: `POST /channels/<channel>/<account_id>/webhook`, and the adapter's other methods.

The order is fixed: account (404), method and size (405, 413), verification of the raw bytes (401), parsing
(415, 400, 422), handling (503 if the database is unavailable, 429 for senders that can wait), acknowledgement. Verified
requests that are malformed, unwanted or repeated are acknowledged: a refusal would only make the platform retry.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from channels.generic.http import AsyncHttpConsumer
from django.db import DatabaseError, DataError, InterfaceError
from django.urls import path
from django.utils import timezone

from audit_app.kernel import context
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError, RateLimited, Unavailable
from sessions_app.channels import accounts
from sessions_app.channels.inbound import dispatch
from sessions_app.identity.request_ids import HEADER as REQUEST_ID_HEADER
from sessions_app.identity.request_ids import request_id_from
from sessions_app.models import ChannelAccount
from sessions_app.platforms.base import (
    Acknowledgement,
    ChannelAdapter,
    NotReadable,
    VerificationFailed,
    WebhookRequest,
    WrongMediaType,
    WrongShape,
)
from sessions_app.platforms.messages import ChannelEvent, Chat, OfAccount

logger = logging.getLogger(__name__)
access_log = logging.getLogger("komand.access")

Headers = Mapping[str, list[str]]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

_STATUS: dict[type[AppError], int] = {NotReadable: 400, WrongMediaType: 415, WrongShape: 422}
# Accounts are cached for this long; then a disabled account or a new secret takes effect.
_KNOWN_SECONDS = 1.0
_MOST_KNOWN = 1000
_BODY_SECONDS = 30.0
_SOON_SECONDS = "5"
_INBOUND_NOTED_SECONDS = 30.0


class Refused(AppError):
    """An error response. headers: further ones."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message, code=code)
        self.status = status
        self.headers = headers or {}


def _unavailable() -> Refused:
    return Refused(503, "unavailable", "Try again.", {"Retry-After": _SOON_SECONDS})


class Accounts:
    """A short-lived cache of accounts, and of when the last inbound time of each was stored."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[float, ChannelAccount]] = {}
        self._noted: dict[Any, float] = {}

    async def find(self, channel: str, account_id: str) -> ChannelAccount | None:
        key, now = (channel, account_id), time.monotonic()
        if known := self._known.get(key):
            if now - known[0] < _KNOWN_SECONDS:
                return known[1]
            self._known[key] = (now, known[1])  # requests that come meanwhile do not look it up, too
        account = await in_db(accounts.find_account, channel, account_id)
        if account is None:
            self._known.pop(key, None)
        else:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = (now, account)
        return account

    def forget(self) -> None:
        """Clear the cache."""
        self._known.clear()
        self._noted.clear()

    def note_inbound(self, account: ChannelAccount) -> None:
        """Store the time for the operator, at most every 30 seconds an account. Synchronous."""
        now = time.monotonic()
        if now - self._noted.get(account.pk, float("-inf")) >= _INBOUND_NOTED_SECONDS:
            self._noted[account.pk] = now
            ChannelAccount.objects.filter(pk=account.pk).update(last_inbound_at=timezone.now())


known_accounts = Accounts()


class WebhookConsumer(AsyncHttpConsumer):
    """One request of a platform. Holds no thread and no database connection while its body arrives."""

    methods = ("POST",)

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        names = scope["url_route"]["kwargs"]
        headers = _headers(scope)
        request_id = request_id_from(next(iter(headers.get(REQUEST_ID_HEADER.lower(), ())), None))
        started = time.monotonic()
        with context.bind(request_id=request_id, actor=f"channel:{names['channel']}"):
            extra: Mapping[str, str] = {}
            try:
                answer = await self._answer(scope, names, headers, receive)
            except Refused as refusal:
                extra, cause = refusal.headers, refusal.__cause__
                more = cause.extra if isinstance(cause, AppError) else {}
                body = {"error": refusal.code, "message": refusal.message, **more}
                answer = Acknowledgement(refusal.status, body)
            took_ms = (time.monotonic() - started) * 1000
            access_log.info("%s %s %d %.0f ms", scope["method"], scope["path"], answer.status, took_ms)
            await _send(send, answer, {**extra, REQUEST_ID_HEADER: request_id})

    async def _answer(
        self, scope: Mapping[str, Any], names: Mapping[str, str], headers: Headers, receive: Receive
    ) -> Acknowledgement:
        try:
            account, adapter = await _find(names["channel"], names["account_id"])
        except (DatabaseError, InterfaceError) as error:
            logger.error("cannot look up the channel account: %s", error)
            raise _unavailable() from error
        method, allowed = scope["method"], ", ".join(adapter.methods)
        if method not in adapter.methods:
            raise Refused(405, "method_not_allowed", f"Only {allowed} is allowed here.", {"Allow": allowed})
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                body = await _read_body(headers, receive, adapter.max_body_bytes)
        except TimeoutError as error:
            raise Refused(408, "too_slow", "The body did not arrive in time.") from error
        request = WebhookRequest(body, headers, method, scope.get("query_string", b"").decode("latin-1"))
        now = datetime.now(UTC)
        if not _is_verified(adapter, request, now) and not (
            await adapter.refresh(request) and _is_verified(adapter, request, now)
        ):
            raise Refused(401, VerificationFailed.code, VerificationFailed().message)
        channel_events: Sequence[ChannelEvent] = ()
        try:
            channel_events = adapter.parse(request, now)
        except AppError as error:
            raise Refused(_STATUS.get(type(error), 400), error.code, error.message) from error
        except Exception as error:
            await _give_up(account, adapter, error, "read")
        else:
            await _handle_all(account, adapter, channel_events, request)
        return adapter.acknowledge(request, channel_events)


def _is_verified(adapter: ChannelAdapter, request: WebhookRequest, now: datetime) -> bool:
    """Return whether the adapter verifies the request. An exception counts as a failed verification."""
    try:
        adapter.verify(request, now)
    except AppError:
        return False
    except Exception:
        logger.exception("%s: the verification of a request failed", adapter.name)
        return False
    return True


async def _handle_all(
    account: ChannelAccount, adapter: ChannelAdapter, channel_events: Sequence[ChannelEvent], request: WebhookRequest
) -> None:
    """Handle the events, each for the account that it is of."""
    own = [event for event in channel_events if not isinstance(event, OfAccount)]
    await _handle_in_database(account, adapter, own, request.body)
    for value, routed in _by_value(channel_events).items():
        found = await in_db(accounts.find_routed, account, adapter.routed_by, value)
        if found is None or not _is_verified(found[1], request, datetime.now(UTC)):
            logger.warning("%s: ignored, no account for which it is verified has this %s", account, adapter.routed_by)
            continue
        await _handle_in_database(*found, routed, request.body)


def _by_value(channel_events: Sequence[ChannelEvent]) -> dict[str, list[ChannelEvent]]:
    routed: dict[str, list[ChannelEvent]] = {}
    for event in channel_events:
        if isinstance(event, OfAccount):
            routed.setdefault(event.value, []).append(event.event)
    return routed


async def _handle_in_database(
    account: ChannelAccount, adapter: ChannelAdapter, channel_events: Sequence[ChannelEvent], raw: bytes
) -> None:
    try:
        await in_db(_handle, account, adapter, channel_events, raw)
    except RateLimited as error:
        seconds = str(error.retry_after_seconds)
        raise Refused(429, error.code, error.message, {"Retry-After": seconds}) from error
    except Unavailable as error:
        raise Refused(503, error.code, error.message, {"Retry-After": _SOON_SECONDS}) from error
    except Exception as error:
        if isinstance(error, DatabaseError | InterfaceError) and not isinstance(error, DataError):
            logger.exception("%s: a message could not be stored", account)
            raise _unavailable() from error
        await _give_up(account, adapter, error, "stored")


async def _give_up(account: ChannelAccount, adapter: ChannelAdapter, error: Exception, what: str) -> None:
    """Report a request that fails each time: a platform that retries it would hold back everything after it.

    what: "read" or "stored". Raises Refused (500) for senders that can react to it; otherwise it is acknowledged.
    """
    logger.error("%s: a message could not be %s", account, what, exc_info=error)
    await in_db(accounts.note_error, account, f"A message could not be {what} ({type(error).__name__}).")
    if adapter.capabilities(Chat("")).pushes_back:
        raise Refused(500, "internal_error", f"This message could not be {what}.") from error


def _handle(account: ChannelAccount, adapter: ChannelAdapter, channel_events: Any, raw: bytes) -> None:
    dispatch.handle_events(account, adapter, channel_events, raw)
    known_accounts.note_inbound(account)


async def _find(channel: str, account_id: str) -> tuple[ChannelAccount, ChannelAdapter]:
    account = await known_accounts.find(channel, account_id)
    if account is None:
        raise Refused(404, "not_found", "There is no such channel account.")
    try:
        return account, accounts.pure.get(account)
    except AppError as error:
        logger.error("%s cannot be used: %s", account, error.message)
        raise Refused(503, "unavailable", "Try again later.", {"Retry-After": "60"}) from error


async def _read_body(headers: Headers, receive: Receive, most: int) -> bytes:
    announced = next(iter(headers.get("content-length", ())), "")
    if announced.isascii() and announced.isdecimal() and int(announced[:12]) > most:
        raise _too_large(most)
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "disconnected", "The body was cut off.")
        body += message.get("body", b"")
        if len(body) > most:
            raise _too_large(most)
        if not message.get("more_body"):
            return bytes(body)


def _too_large(most: int) -> Refused:
    return Refused(413, "body_too_large", f"The body has more than {most:,} bytes.")


def _headers(scope: Mapping[str, Any]) -> dict[str, list[str]]:
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return headers


async def _send(send: Send, answer: Acknowledgement, headers: Mapping[str, str]) -> None:
    text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body, ensure_ascii=False)
    body = b"" if answer.body is None else text.encode()
    fields = {"Content-Type": answer.content_type, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    all_headers = {**fields, "Content-Length": str(len(body)), **headers}
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in all_headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


routes = [path("channels/<slug:channel>/<slug:account_id>/webhook", WebhookConsumer.as_asgi())]
