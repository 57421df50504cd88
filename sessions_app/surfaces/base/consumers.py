"""The wrapper of every consumer that answers HTTP: it gives them what Django's middleware gives views.

Request id, CORS, Host check, body cap, identity, rate limit, errors and access log. The surface declares the error
body.
No thread and no database connection waits here: synchronous code goes through `in_db`.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, ClassVar

from channels.generic.http import AsyncHttpConsumer
from django.conf import settings
from django.http import HttpRequest
from rest_framework.exceptions import MethodNotAllowed, UnsupportedMediaType

from audit_app.kernel import context
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import Unavailable
from sessions_app.identity import rate_limits
from sessions_app.identity.authentication import request_from_scope
from sessions_app.identity.principal import Principal
from sessions_app.identity.request_admission import admit
from sessions_app.surfaces.base.bodies import BodyTooLarge
from sessions_app.surfaces.base.cors import cors_headers
from sessions_app.surfaces.base.http_errors import HttpError, http_error_of
from sessions_app.surfaces.base.request_ids import HEADER as REQUEST_ID_HEADER
from sessions_app.surfaces.base.request_ids import request_id_from
from sessions_app.surfaces.base.surface import Surface, surface_at

access_log = logging.getLogger("komand.access")

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_CLIENT_CLOSED = 499  # what the access log shows when the client left before the answer began
_WITH_BODY = ("POST", "PUT", "PATCH")


class ClientGone(Exception):
    """The client closed the connection."""


class LiveConsumer(AsyncHttpConsumer):
    """One HTTP request that waits or streams. Subclasses set `methods`, write `respond` and `error_body`.

    When the client leaves, `respond` is cancelled; what it had begun in the database is finished there. It is
    cancelled when the server ends, too: `has_left` tells the two apart.
    """

    methods: ClassVar[tuple[str, ...]] = ("GET",)
    media_types: ClassVar[tuple[str, ...]] = ("application/json",)  # of bodies; empty: any

    request: HttpRequest
    principal: Principal
    has_left = False  # the client, before it had its answer
    _is_complete = False  # the answer

    def limit(self) -> rate_limits.Limit:
        """What requests are counted against, by user."""
        return rate_limits.api_limit()

    @staticmethod
    def admit(request: HttpRequest, limit: rate_limits.Limit) -> Principal:
        """Who may come in, as `admission.admit`. Synchronous."""
        return admit(request, limit)

    async def respond(self, body: bytes) -> None:
        """Answer the admitted request with `send_json`, or `send_headers` and `send_body`; may raise."""
        raise NotImplementedError

    @property
    def surface(self) -> Surface:
        """The surface that owns the path of the request."""
        surface = surface_at(self.scope["path"])
        if surface is None:
            raise LookupError(f"no surface declares a prefix of {self.scope['path']}")
        return surface

    def error_body(self, error: HttpError) -> Any:
        """Return the JSON body of an error, as the surface declares it."""
        if self.surface.error_body is None:
            raise LookupError(f"the surface {self.surface.name} declares no error_body")
        return self.surface.error_body(error)

    async def break_off(self, failure: HttpError) -> None:
        """End an answer that has begun and cannot go on."""
        await self.send({"type": "http.response.body", "body": b""})

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        # Instead of the dispatch loop of Channels: that would open a channel per request, and would not see
        # a client leave while `respond` works.
        self.scope, self.base_send, self._receive = scope, send, receive
        self._status = 0
        self._headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self._request_id = request_id_from(self._headers.get(REQUEST_ID_HEADER.lower()))
        started = time.monotonic()
        with context.bind(request_id=self._request_id, actor="anonymous"):
            try:
                await self._serve()
            except ClientGone:
                self._status = self._status or _CLIENT_CLOSED
            finally:
                took_ms = (time.monotonic() - started) * 1000
                access_log.info("%s %s %s %.0f ms", scope["method"], scope["path"], self._status, took_ms)

    async def send(self, message: Message) -> None:
        """Adds the headers that every answer of ours carries."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = [*_encoded(message.get("headers", ())), *_encoded(self._common_headers().items())]
            message = {**message, "headers": headers}
        elif message["type"] == "http.response.body":
            self._is_complete = not message.get("more_body")
        await self.base_send(message)

    async def send_json(self, status: int, data: Any, headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
        fields = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
        await self.send({"type": "http.response.start", "status": status, "headers": list(fields.items())})
        await self.send({"type": "http.response.body", "body": body})

    async def _serve(self) -> None:
        try:
            if self._is_preflight():
                await self.send({"type": "http.response.start", "status": 204, "headers": []})
                await self.send({"type": "http.response.body", "body": b""})
                return
            self._check_form()
            self.request = request_from_scope(self.scope)
            self.principal = await in_db(self.admit, self.request, self.limit())
            context.actor.set(self.principal.actor)
            body = await self._read_body()
            await self._until_gone(self.respond(body))
        except ClientGone:
            raise
        except asyncio.CancelledError:
            if not self._is_complete:
                await self._fail(Unavailable("The server restarts. Ask again.", code="restarting"))
            raise
        except Exception as error:
            await self._fail(error)

    def _is_preflight(self) -> bool:
        return self.scope["method"] == "OPTIONS" and "access-control-request-method" in self._headers

    def _check_form(self) -> None:
        method = self.scope["method"]
        if method not in self.methods:
            raise MethodNotAllowed(method)
        media_type = self._headers.get("content-type", "").partition(";")[0].strip().lower()
        if method in _WITH_BODY and self.media_types and media_type not in self.media_types:
            raise UnsupportedMediaType(media_type)

    async def _read_body(self) -> bytes:
        body = bytearray()
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            body += message.get("body", b"")
            if len(body) > settings.KOMAND_MAX_BODY_BYTES:
                raise BodyTooLarge
            if not message.get("more_body"):
                return bytes(body)

    async def _until_gone(self, work: Coroutine[Any, Any, None]) -> None:
        """Run to the end, or until the client closes the connection; then raises ClientGone."""
        working = asyncio.ensure_future(work)
        leaving = asyncio.ensure_future(self._wait_for_disconnect())
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                self.has_left = True
                raise ClientGone
            working.result()
        finally:
            working.cancel()
            leaving.cancel()
            await asyncio.gather(working, leaving, return_exceptions=True)

    async def _wait_for_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _fail(self, error: Exception) -> None:
        failure = http_error_of(error)
        if self._status:  # too late for another status
            access_log.warning("the answer broke off: %s", failure.message)
            await self.break_off(failure)
            return
        headers = dict(self.surface.error_headers(failure))
        if failure.status == 405:
            headers["Allow"] = ", ".join(self.methods)
        await self.send_json(failure.status, self.error_body(failure), headers)

    def _common_headers(self) -> dict[str, str]:
        origin = self._headers.get("origin", "")
        return {
            REQUEST_ID_HEADER: self._request_id,
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
            **cors_headers(origin, settings.KOMAND_CORS_ORIGINS, preflight=self._is_preflight()),
        }


def _encoded(headers: Iterable[tuple[str | bytes, str | bytes]]) -> list[tuple[bytes, bytes]]:
    def as_bytes(text: str | bytes) -> bytes:
        return text if isinstance(text, bytes) else text.encode("latin-1")

    return [(as_bytes(name).lower(), as_bytes(value)) for name, value in headers]
