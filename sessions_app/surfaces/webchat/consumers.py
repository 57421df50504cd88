"""Routes of visitors' requests. They hold no thread while a body arrives or a stream is open."""

from collections.abc import Callable, Collection
from functools import partial
from typing import ClassVar
from uuid import UUID

from django.conf import settings
from django.urls import path

from audit_app.kernel import context
from audit_app.kernel.database import in_db
from sessions_app.access import access_conversation
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.platforms.adapters.web.adapter import Web
from sessions_app.platforms.adapters.web.visitor_tokens import Visitor
from sessions_app.platforms.base import WebhookRequest
from sessions_app.platforms.sender_actors import sender_actor
from sessions_app.surfaces.base.intake_limit import store_message
from sessions_app.surfaces.base.openapi.operations import EVENTS, Answer, Operation
from sessions_app.surfaces.base.openapi.schemas import TEXT, record, ref
from sessions_app.surfaces.base.sse import EventStreamConsumer, event_text
from sessions_app.surfaces.webchat import commands, queries, responses
from sessions_app.surfaces.webchat.errors import TokenRefused
from sessions_app.surfaces.webchat.operations import FORM, LAST, MESSAGE, PRESS, RECEIVED, TICKET
from sessions_app.surfaces.webchat.projection import page_event
from sessions_app.surfaces.webchat.rendered_steps import RenderedSteps
from sessions_app.surfaces.webchat.requests import MailBody, OpenBody
from sessions_app.surfaces.webchat.visitor_admission import (
    Site,
    admit_opening,
    admit_visitor,
    find_refusals,
    find_site,
    origin_of,
)


class SiteConsumer(EventStreamConsumer):
    """A request about one account. Pages of the account's origins may read the answer."""

    methods = ("POST",)
    site: Site | None = None

    @property
    def _account_id(self) -> str:
        return str(self.scope["url_route"]["kwargs"]["account"])

    async def find_origins(self) -> Collection[str]:
        self.site = await in_db(find_site, self._account_id)
        return (*settings.KOMAND_CORS_ORIGINS, *(self.site.adapter.origins if self.site else ()))

    def webhook_request(self, body: bytes = b"") -> WebhookRequest:
        headers: dict[str, list[str]] = {}
        for name, value in self.scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        return WebhookRequest(
            body, headers, self.scope["method"], self.scope.get("query_string", b"").decode("latin-1")
        )

    async def answer(self, answer: commands.Answer) -> None:
        await self.send_json(answer.status, answer.data)


class Sessions(SiteConsumer):
    """POST /webchat/<account>/sessions. It has no credential that could end."""

    find_refusals = staticmethod(lambda consumers: [None] * len(consumers))

    async def let_in(self) -> None:
        self._opened_at = await in_db(admit_opening, self.site, self.request)

    @Operation(
        "Open a conversation", responses.WebChatOpenedOut, status=201, body=OpenBody, access="open", errors=[401, 403]
    )
    async def respond(self, body: bytes) -> None:
        own, request = origin_of(self.request), self.webhook_request(body)
        await self.answer(await in_db(commands.open_conversation, self._opened_at, request, own))


class VisitorConsumer(SiteConsumer):
    """A request with a visitor's token."""

    find_refusals = staticmethod(find_refusals)
    visitor: Visitor

    async def let_in(self) -> None:
        self.visitor = await in_db(admit_visitor, self.site, self.webhook_request(), self.request)
        context.actor.set(sender_actor(Web.name, self._account_id, self.visitor.id))

    @property
    def known_site(self) -> Site:
        if self.site is None:
            raise TokenRefused
        return self.site


class VisitorCommand(VisitorConsumer):
    """A request that changes something.

    command: carries it out, synchronous.
    reads_files: it may take seconds.
    """

    reads_files = False
    command: ClassVar[Callable[[Site, Visitor, WebhookRequest], commands.Answer]]

    async def respond(self, body: bytes) -> None:
        command = partial(type(self).command, self.known_site, self.visitor, self.webhook_request(body))
        await self.answer(await store_message(command, is_slow=self.reads_files))


class Messages(VisitorCommand):
    """POST /webchat/<account>/messages."""

    command = commands.receive_message
    respond = Operation(
        "Send a message",
        RECEIVED,
        status=202,
        body=MESSAGE,
        errors=[422],
        answers={200: Answer("Sent before.", RECEIVED)},
    )(VisitorCommand.respond)


class Actions(VisitorCommand):
    """POST /webchat/<account>/actions."""

    command = commands.press_button
    respond = Operation(
        "Press a button",
        record({"notice": ref("WebChatNotice")}, optional=["notice"]),
        status=202,
        body=PRESS,
        errors=[422],
    )(VisitorCommand.respond)


class Uploads(VisitorCommand):
    """POST /webchat/<account>/uploads."""

    media_types = ()  # a form, which the command reads
    reads_files = True
    command = commands.upload
    respond = Operation(
        "Upload a file for a message",
        responses.WebChatUploadOut,
        status=201,
        body=FORM,
        media_type="multipart/form-data",
    )(VisitorCommand.respond)


class Transcripts(VisitorCommand):
    """POST /webchat/<account>/transcripts."""

    command = commands.mail_transcript
    respond = Operation("Get the conversation by mail", record({}), status=202, body=MailBody, errors=[404, 422, 429])(
        VisitorCommand.respond
    )


class Tickets(VisitorConsumer):
    """POST /webchat/<account>/tickets."""

    media_types = ()

    @Operation("Get a ticket for the events", responses.WebChatTicketOut, status=201, errors=[404])
    async def respond(self, body: bytes) -> None:
        await self.answer(await in_db(commands.issue_ticket, self.known_site, self.visitor))


class Typing(VisitorConsumer):
    """POST /webchat/<account>/typing. Accepted and not stored: agents do not read unfinished messages."""

    media_types = ()

    @Operation("Say that the visitor writes", status=204)
    async def respond(self, body: bytes) -> None:
        await self.send({"type": "http.response.start", "status": 204, "headers": []})
        await self.send({"type": "http.response.body", "body": b""})


class Events(VisitorConsumer):
    """GET /webchat/<account>/events."""

    methods = ("GET",)

    @Operation(
        "Follow the conversation",
        parameters=[TICKET, LAST],
        errors=[403],
        answers={200: Answer("The events, without end.", TEXT, EVENTS)},
        streams=True,
    )
    async def respond(self, body: bytes) -> None:
        self._session_id, self._steps = await in_db(self._find_session), RenderedSteps()
        cursor = self._resume_at(self._headers.get("last-event-id") or self.request.GET.get("lastEventId", ""))
        await self.open_stream()
        async for frame in self.watch(self._session_id, cursor):
            if text := await self._text_of(frame):
                await self.send_text(text)

    def _find_session(self) -> UUID:
        return access_conversation(self.known_site.key_of(self.visitor)).pk

    @property
    def _mark(self) -> str:
        """Prefix of event ids, different for each conversation."""
        return self._session_id.hex[-8:]

    def _resume_at(self, event_id: str) -> str:
        mark, _, cursor = event_id.partition(":")
        return cursor if mark == self._mark else ""

    async def _text_of(self, frame: list[SessionEvent]) -> str:
        details = queries.Details()
        if queries.needs_details(frame):
            details = await in_db(queries.read_details, self.known_site.account, frame)
        shown = [(event.cursor, page_event(event, details, self._steps)) for event in frame]
        return "".join(
            event_text(sent.text, event=sent.name, entry_id=f"{self._mark}:{cursor}") for cursor, sent in shown if sent
        )


routes = [
    path("webchat/<slug:account>/sessions", Sessions.as_asgi()),
    path("webchat/<slug:account>/messages", Messages.as_asgi()),
    path("webchat/<slug:account>/actions", Actions.as_asgi()),
    path("webchat/<slug:account>/uploads", Uploads.as_asgi()),
    path("webchat/<slug:account>/transcripts", Transcripts.as_asgi()),
    path("webchat/<slug:account>/tickets", Tickets.as_asgi()),
    path("webchat/<slug:account>/typing", Typing.as_asgi()),
    path("webchat/<slug:account>/events", Events.as_asgi()),
]
