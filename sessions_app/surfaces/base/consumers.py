"""The base class of HTTP consumers. It does for them what Django's middleware does for views.

Request id, CORS, Host check, body limit, authentication, rate limit, errors and access log. The surface declares the
error body. Consumers hold no thread and no database connection while they wait: synchronous code runs in `in_db`.
"""

import asyncio
import logging
import time
from abc import ABC
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar
from uuid import UUID

from channels.generic.http import AsyncHttpConsumer
from django.conf import settings
from django.http import HttpRequest
from rest_framework.exceptions import MethodNotAllowed, UnsupportedMediaType

from agents_app import services as runs
from audit_app.kernel import context
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError, InvalidInput, Unavailable
from audit_app.kernel.json_text import as_json
from sessions_app.identity import rate_limits
from sessions_app.identity.authentication import request_from_scope
from sessions_app.identity.principal import Principal
from sessions_app.identity.request_admission import admit
from sessions_app.identity.request_ids import HEADER as REQUEST_ID_HEADER
from sessions_app.identity.request_ids import request_id_from
from sessions_app.surfaces.base.bodies import BodyTooLarge
from sessions_app.surfaces.base.cors import cors_headers
from sessions_app.surfaces.base.http_errors import HttpError, http_error_of
from sessions_app.surfaces.base.intake_limit import store_message
from sessions_app.surfaces.base.openapi.operations import STOP_ON_DISCONNECT, Operation
from sessions_app.surfaces.base.reauthentication import find_refusals, refusal_of
from sessions_app.surfaces.base.surface import Surface, most_body_bytes, surface_at

access_log = logging.getLogger("komand.access")

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
T = TypeVar("T")

_CLIENT_CLOSED = 499  # in the access log: the client disconnected before the answer began
_WITH_BODY = ("POST", "PUT", "PATCH")


class ClientGone(Exception):
    """The client closed the connection."""


class LiveConsumer(AsyncHttpConsumer, ABC):
    """One HTTP request that waits or streams.

    Subclasses set `methods` and implement `respond`, or an asynchronous method for each of them, such as `post`.
    `respond` is cancelled when the client disconnects, is refused or the server shuts down; `has_left` is true in the
    first case, `is_refused` in the second. A database call that has begun is finished.

    is_endless: it lasts as long as its client wants, but no longer than its token. Other requests end when their
        credential is revoked, but not with a token that expires while they wait.
    find_refusals: as for `refusal_of`.
    is_admitted: false while `respond` has not admitted the request, if `let_in` leaves that to it.
    session_id: the session that it shows, if that is one.
    run_id: the run that it has asked for, once that is stored.
    stops_on_disconnect: that run is stopped if the client disconnects; the header STOP_ON_DISCONNECT overrides it.
    """

    methods: ClassVar[tuple[str, ...]] = ("GET",)
    media_types: ClassVar[tuple[str, ...]] = ("application/json",)  # accepted media types of bodies; empty: any
    is_endless: ClassVar[bool] = False
    find_refusals: "ClassVar[staticmethod[[Sequence[Any]], Sequence[AppError | None]]]" = staticmethod(find_refusals)

    request: HttpRequest
    principal: Principal
    operation: Operation
    session_id: UUID | None = None
    run_id: UUID | None = None
    stops_on_disconnect = False
    is_admitted = True
    has_left = False  # the client disconnected before the answer was complete
    is_refused = False  # so did the access of the client end
    _is_complete = False  # the answer was sent

    def limit(self) -> rate_limits.Limit:
        """Return the rate limit by which requests are counted per user."""
        return rate_limits.api_limit()

    @staticmethod
    def admit(request: HttpRequest, limit: rate_limits.Limit) -> Principal:
        """Return the principal of the request, as `request_admission.admit`. Synchronous."""
        return admit(request, limit)

    async def find_origins(self) -> Collection[str]:
        """Return the origins whose pages may read the answers."""
        return tuple(settings.KOMAND_CORS_ORIGINS)

    async def let_in(self) -> None:
        """Admit the request and bind its actor. Raises AppError for one that may not proceed."""
        await in_db(self.admit_now)
        context.actor.set(self.principal.actor)

    def admit_now(self) -> None:
        """Admit the request and bind its actor in the calling context. Synchronous. Raises as `let_in`."""
        self.principal = self.admit(self.request, self.limit())
        self.is_admitted = True
        context.actor.set(self.principal.actor)

    async def respond(self, body: bytes) -> None:
        """Answer the admitted request, by default with the handler that has the name of its method.

        Exceptions are answered as errors of the surface.
        """
        await getattr(self, self.scope["method"].lower())(body)

    @property
    def is_restarting(self) -> bool:
        """Return whether a cancellation means that the server shuts down."""
        return not (self.has_left or self.is_refused)

    @property
    def surface(self) -> Surface:
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
        """End an answer after an error, when its headers have been sent."""
        await self.send({"type": "http.response.body", "body": b""})

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        # Instead of the dispatch loop of Channels, which opens a channel for each request and does not notice
        # a disconnect while `respond` runs.
        self.scope, self.base_send, self._receive = scope, send, receive
        self._status, self._origins = 0, tuple[str, ...]()
        self._headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self._request_id = request_id_from(self._headers.get(REQUEST_ID_HEADER.lower()))
        started = time.monotonic()
        with context.bind(request_id=self._request_id, actor="anonymous"):
            try:
                await self._serve()
            except ClientGone:
                self._status = self._status or _CLIENT_CLOSED
            finally:
                if principal := getattr(self, "principal", None):
                    context.actor.set(principal.actor)
                took_ms = (time.monotonic() - started) * 1000
                access_log.info("%s %s %s %.0f ms", scope["method"], scope["path"], self._status, took_ms)

    async def send(self, message: Message) -> None:
        """Send an ASGI message. Adds the common headers to the first."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = [*_encoded(message.get("headers", ())), *_encoded(self._common_headers().items())]
            message = {**message, "headers": headers}
        elif message["type"] == "http.response.body":
            self._is_complete = not message.get("more_body")
        await self.base_send(message)

    async def send_json(self, status: int, data: Any, headers: Mapping[str, str] | None = None) -> None:
        await self.send_whole(status, json_body(data), headers)

    async def send_whole(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Send a whole answer, of JSON unless `headers` say otherwise."""
        fields = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
        await self.send({"type": "http.response.start", "status": status, "headers": list(fields.items())})
        await self.send({"type": "http.response.body", "body": body})

    async def _serve(self) -> None:
        try:
            self._origins = tuple(await self.find_origins())
            if self._is_preflight():
                await self.send({"type": "http.response.start", "status": 204, "headers": []})
                await self.send({"type": "http.response.body", "body": b""})
                return
            self._check_form()
            self.request = request_from_scope(self.scope)
            await self.let_in()
            body = await self._read_body()
            await self._until_gone(self._respond_or_stop(body))
        except ClientGone:
            raise
        except asyncio.CancelledError:
            if not self._is_complete:
                await self._fail(Unavailable("The server restarts. Send the request again.", code="restarting"))
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
        wish = self._headers.get(STOP_ON_DISCONNECT.name.lower(), "").strip().lower()
        if wish not in ("", "true", "false"):
            raise InvalidInput(f"The header {STOP_ON_DISCONNECT.name} must be true or false.", code="invalid_header")
        self.stops_on_disconnect = wish == "true" if wish else self.stops_on_disconnect

    async def _read_body(self) -> bytes:
        body, most = bytearray(), most_body_bytes(self.scope["path"])
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            body += message.get("body", b"")
            if len(body) > most:
                raise BodyTooLarge
            if not message.get("more_body"):
                return bytes(body)

    async def _respond_or_stop(self, body: bytes) -> None:
        try:
            await self.respond(body)
        except asyncio.CancelledError:
            if self.has_left and self.stops_on_disconnect and self.run_id is not None:
                await asyncio.shield(in_db(runs.cancel_run, self.run_id, reason="The client left."))
            raise

    async def _until_gone(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the coroutine to its end, and cancel it if the client disconnects or is refused before.

        Raises ClientGone, or the AppError of the refusal.
        """
        working = asyncio.ensure_future(work)
        leaving = asyncio.ensure_future(self._wait_for_disconnect())
        with refusal_of(self, self.find_refusals) as refusal:
            try:
                either: set[asyncio.Future[Any]] = {working, leaving, refusal}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if not working.done():
                    self.has_left, self.is_refused = leaving.done(), not leaving.done()
                    raise ClientGone if self.has_left else refusal.result()
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
        if self._status:  # the headers have been sent
            access_log.warning("the answer was aborted: %s", failure.message)
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
            **cors_headers(origin, self._origins, preflight=self._is_preflight()),
        }


class MessageConsumer(LiveConsumer):
    """A request that stores a message. It is admitted where that is stored: one call in the database's thread for both.

    `respond` must call `store` before anything else of the request is read. `accept` sets `run_id`.
    """

    is_admitted = False

    def limit(self) -> rate_limits.Limit:
        return rate_limits.chat_limit()

    async def let_in(self) -> None:
        """Leave the admission to `store`."""

    async def store(self, accept: Callable[..., T], *arguments: Any, finish_on_cancel: bool = False) -> T:
        """Admit the request, call the synchronous `accept` and return its result. Raises as `let_in`.

        finish_on_cancel: as for `store_message`; implied if a disconnect stops the run.
        """
        finishes = finish_on_cancel or self.stops_on_disconnect
        stored: T = await store_message(self._admit_and, accept, *arguments, finish_on_cancel=finishes)
        context.actor.set(self.principal.actor)
        return stored

    def _admit_and(self, accept: Callable[..., T], *arguments: Any) -> T:
        self.admit_now()
        return accept(*arguments)


def json_body(data: Any) -> bytes:
    return as_json(data).encode()


def _encoded(headers: Iterable[tuple[str | bytes, str | bytes]]) -> list[tuple[bytes, bytes]]:
    def as_bytes(text: str | bytes) -> bytes:
        return text if isinstance(text, bytes) else text.encode("latin-1")

    return [(as_bytes(name).lower(), as_bytes(value)) for name, value in headers]
