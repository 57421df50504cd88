"""Commands of visitors: open a conversation, send a message, press a button, upload a file. Synchronous."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import uuid4

from django.db.models import Q
from django.utils import timezone

from sessions_app.access import access_conversation
from sessions_app.attachments import uploads
from sessions_app.channels.inbound import dispatch
from sessions_app.models import ChannelAccount
from sessions_app.platforms.adapters.web import visitor_tokens
from sessions_app.platforms.adapters.web.adapter import message_key
from sessions_app.platforms.adapters.web.visitor_tokens import ANONYMOUS, Visitor
from sessions_app.platforms.base import VerificationFailed, WebhookRequest, WrongShape
from sessions_app.platforms.messages import ButtonPress, ChannelMessage, clean_name
from sessions_app.surfaces.base.bodies import parse_json
from sessions_app.surfaces.webchat import mailed_copy, queries
from sessions_app.surfaces.webchat.errors import TokenRefused, Unprocessable, UserHashRefused
from sessions_app.surfaces.webchat.requests import MailBody, OpenBody, read_upload
from sessions_app.surfaces.webchat.responses import (
    WebChatNoticeOut,
    WebChatOpenedOut,
    WebChatTicketOut,
    WebChatUploadOut,
)
from sessions_app.surfaces.webchat.visitor_admission import Site

# The conversation of a known user who names none: the same on all devices.
_MAIN = "main"
_NOTED_EVERY = timedelta(seconds=30)


class Answer(NamedTuple):
    status: int
    data: dict[str, Any]


@dataclass(frozen=True)
class Opened:
    """A conversation that a visitor has opened."""

    token: str
    conversation_id: str
    visitor_id: str
    expires_at: datetime


def open_conversation(site: Site, request: WebhookRequest, own_origin: str) -> Answer:
    """Return a token for a conversation of the visitor: of a known user, of the token's, or of a new visitor.

    Raises OriginRefused, UserHashRefused, TokenRefused.
    """
    is_native = "origin" not in request.headers and bool(site.adapter.account.config.get("native_apps"))
    site.adapter.check_origin(request, is_native=is_native, own=[own_origin])
    fields = _read_body(request)
    now = datetime.now(UTC)
    visitor_id, conversation_id, name = _identify(site, request, fields, now)
    visitor = Visitor(
        visitor_id,
        fields["conversation_id"] or conversation_id,
        clean_name(fields["name"] or name),
        is_native,
        now + visitor_tokens.LIFETIME,
    )
    token = visitor_tokens.issue_token(site.token_secret, site.account.account_id, visitor, now)
    opened = Opened(token, visitor.conversation_id, visitor.id, visitor.expires_at)
    return Answer(201, WebChatOpenedOut.of(opened))


def _read_body(request: WebhookRequest) -> dict[str, str]:
    body = OpenBody(data=parse_json(request.body or b"{}"))
    body.is_valid(raise_exception=True)
    return {name: value or "" for name, value in body.validated_data.items()}


def _identify(site: Site, request: WebhookRequest, fields: dict[str, str], now: datetime) -> tuple[str, str, str]:
    """Return the id of the visitor, the conversation that is opened without a choice, and the known name."""
    if user_id := fields["user_id"]:
        if not find_secret(site, user_id, fields["user_hash"]):
            raise UserHashRefused
        return user_id, _MAIN, ""
    if "authorization" in request.headers:
        try:
            known = site.adapter.read_visitor(request, now)
        except VerificationFailed:
            raise TokenRefused from None
        return known.id, known.conversation_id, known.name
    return visitor_tokens.new_anonymous_id(), str(uuid4()), ""


def find_secret(site: Site, user_id: str, given_hash: str) -> str:
    """Return the name of the secret with which the site has made the hash of a user, empty if it names no user."""
    if user_id.startswith(ANONYMOUS):
        return ""
    secrets = site.adapter.account.secrets
    names = ("identity_secret", "identity_secret_before")
    proven = [name for name in names if visitor_tokens.is_user_hash(secrets.get(name, ""), user_id, given_hash)]
    return proven[0] if proven else ""


def issue_ticket(site: Site, visitor: Visitor) -> Answer:
    """Return a ticket for one connection to the events. Raises NotFound before the first message."""
    access_conversation(site.key_of(visitor))
    ticket = visitor_tokens.issue_ticket(site.token_secret, site.account.account_id, visitor, datetime.now(UTC))
    seconds = int(visitor_tokens.TICKET_LIFETIME.total_seconds())
    return Answer(201, WebChatTicketOut.of(None, ticket=ticket, expires_in=seconds))


def receive_message(site: Site, visitor: Visitor, request: WebhookRequest) -> Answer:
    """Receive a message once. Raises Unprocessable, and what the dispatch raises for senders that can wait."""
    event = _parse(site, request)
    if not isinstance(event, ChannelMessage):
        raise Unprocessable("This is not a message. Send pressed buttons to /actions.", code="wrong_shape")
    key = message_key(visitor, event.message_id)
    if queries.find_received(site.account, key):
        return Answer(200, {"messageId": event.message_id, "duplicate": True})
    if not uploads.has_unsent(site.account, [file.id for file in event.attachments]):
        problem = "A file of the message is not there, or was sent before. Upload it again."
        raise Unprocessable(problem, code="unknown_attachment")
    dispatch.handle_events(site.account, site.adapter, [event], request.body)
    _note_inbound(site.account)
    return Answer(202, {"messageId": event.message_id, **_reply(site, key)})


def press_button(site: Site, visitor: Visitor, request: WebhookRequest) -> Answer:
    """Carry out a button: a decision, or an option of a question. Raises Unprocessable."""
    event = _parse(site, request)
    if not isinstance(event, ButtonPress):
        raise Unprocessable("actionId is missing.", code="wrong_shape")
    dispatch.handle_events(site.account, site.adapter, [event], request.body)
    _note_inbound(site.account)
    return Answer(202, _reply(site, event.keys[0]))


def upload(site: Site, visitor: Visitor, request: WebhookRequest) -> Answer:
    """Store a file for a message of the visitor. Raises InvalidInput."""
    filename, data = read_upload(request)
    return Answer(201, WebChatUploadOut.of(uploads.upload_of_sender(site.account, visitor.id, filename, data)))


def mail_transcript(site: Site, visitor: Visitor, request: WebhookRequest) -> Answer:
    """Have the visitor's conversation sent by mail. Raises what `send_transcript` raises."""
    body = MailBody(data=parse_json(request.body or b"{}"))
    body.is_valid(raise_exception=True)
    mailed_copy.send_transcript(site, visitor, body.validated_data["address"])
    return Answer(202, {})


def _parse(site: Site, request: WebhookRequest) -> Any:
    try:
        [event] = site.adapter.parse(request, datetime.now(UTC))
    except WrongShape as error:
        raise Unprocessable(error.message, code=error.code) from None
    return event


def _reply(site: Site, key: str) -> dict[str, Any]:
    """Return the notice that answers a message which got no run, such as a command; empty if there is none."""
    text = queries.find_notice(site.account, key)
    return {"notice": WebChatNoticeOut.of(None, markdown=text, html=queries.html_of(text))} if text else {}


def _note_inbound(account: ChannelAccount) -> None:
    """Store the time for the operator, at most every 30 seconds."""
    now = timezone.now()
    is_old = Q(last_inbound_at=None) | Q(last_inbound_at__lt=now - _NOTED_EVERY)
    ChannelAccount.objects.filter(is_old, pk=account.pk).update(last_inbound_at=now)
