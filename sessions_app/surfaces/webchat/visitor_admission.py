"""Admission of visitors' requests: the account, the token or ticket, the origin, the rate limits. Synchronous."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest

from audit_app.kernel.errors import AppError, NotFound, Unavailable
from sessions_app.access import find_conversations
from sessions_app.channels import accounts
from sessions_app.conversation.session_key import SessionKey
from sessions_app.identity import client_ip, rate_limits, stream_tickets
from sessions_app.identity.rate_limits import Limit
from sessions_app.models import ChannelAccount
from sessions_app.platforms.adapters.web import visitor_tokens
from sessions_app.platforms.adapters.web.adapter import Web
from sessions_app.platforms.adapters.web.visitor_tokens import Visitor
from sessions_app.platforms.base import VerificationFailed, WebhookRequest
from sessions_app.platforms.signatures import same_secret
from sessions_app.surfaces.webchat.errors import TokenRefused


@dataclass(frozen=True)
class Site:
    """An enabled account of the web chat, with its adapter."""

    account: ChannelAccount
    adapter: Web

    @property
    def token_secret(self) -> str:
        return self.adapter.account.secrets["token_secret"]

    def key_of(self, visitor: Visitor) -> SessionKey:
        """Return the key of the visitor's conversation, made of what the token proves."""
        return SessionKey(Web.name, self.account.account_id, visitor.id, visitor.conversation_id)

    def is_valid(self, token_secret: str, visitor: Visitor) -> bool:
        """Return whether a token that was made with that secret still counts."""
        is_known = same_secret(token_secret, self.token_secret)
        return is_known and datetime.now(UTC) < visitor.expires_at + visitor_tokens.LEEWAY


class Visit(Protocol):
    """An open connection of a visitor. session_id: the conversation that it shows, None if it shows none."""

    session_id: UUID | None

    @property
    def known_site(self) -> Site: ...

    @property
    def visitor(self) -> Visitor: ...


def find_site(account_id: str) -> Site | None:
    """Return the enabled account of that name, None if there is none. Raises Unavailable for a broken one."""
    account = accounts.find_account(Web.slug, account_id)
    return None if account is None else _site_of(account)


def _site_of(account: ChannelAccount) -> Site | None:
    try:
        adapter = accounts.pure.get(account)
    except AppError as error:
        raise Unavailable("This chat is not available. Try again later.") from error
    return Site(account, adapter) if isinstance(adapter, Web) else None


def get_site(account_id: str) -> Site:
    """Return the enabled account of that name. Raises NotFound and Unavailable."""
    site = find_site(account_id)
    if site is None:
        raise NotFound("There is no such chat.")
    return site


def origin_of(http: HttpRequest) -> str:
    """Return the origin that the request was sent to. Raises SuspiciousOperation for a foreign Host."""
    return f"{http.scheme}://{http.get_host()}"


def admit_opening(site: Site | None, http: HttpRequest) -> Site:
    """Count a request for a token, by address and by account. Raises NotFound, RateLimited."""
    http.get_host()
    if site is None:
        raise NotFound("There is no such chat.")
    name = str(site.account.pk)
    address = client_ip.network_of(client_ip.of_request(http))
    one = Limit("visitor", settings.KOMAND_VISITOR_LIMIT, settings.KOMAND_VISITOR_WINDOW_SECONDS)
    rate_limits.take(one, f"{name}:{address}")
    rate_limits.take(Limit("visitors", settings.KOMAND_VISITORS_LIMIT, settings.KOMAND_VISITORS_WINDOW_SECONDS), name)
    return site


def admit_visitor(site: Site | None, request: WebhookRequest, http: HttpRequest) -> Visitor:
    """Return the visitor whose request may proceed. Raises TokenRefused, OriginRefused, RateLimited."""
    own = origin_of(http)
    if site is None:
        raise TokenRefused
    ticket = http.GET.get("ticket", "") if request.method == "GET" else ""
    visitor = _redeem(site, ticket) if ticket else _read(site, request)
    # Browsers leave the header out of a page's own GET requests.
    is_read = request.method == "GET" and "origin" not in request.headers
    site.adapter.check_origin(request, is_native=visitor.is_native or is_read, own=[own])
    rate_limits.take(rate_limits.api_limit(), f"visitor:{site.account.pk}:{visitor.id}")
    return visitor


def find_refusals(visits: Sequence[Visit]) -> list[AppError | None]:
    """Check open connections of visitors again: the account, the token, and that no new conversation has begun.

    Synchronous. One statement for all accounts, and one for all conversations.
    """
    # Read once, before the statements: a connection that finds its conversation meanwhile is checked the next time.
    shown = [(visit, visit.session_id) for visit in visits]
    names = {visit.known_site.account.account_id for visit in visits}
    rows = {row.account_id: row for row in accounts.find_accounts(Web.slug, names)}
    keys = {str(visit.known_site.key_of(visit.visitor)) for visit, session_id in shown if session_id}
    sessions = find_conversations(keys)

    def refusal(visit: Visit, session_id: UUID | None) -> AppError | None:
        known, row = visit.known_site, rows.get(visit.known_site.account.account_id)
        try:
            site = None if row is None else _site_of(row)
        except Unavailable as error:
            return error
        if site is None or not site.is_valid(known.token_secret, visit.visitor):
            return TokenRefused()
        is_shown = session_id == sessions.get(str(known.key_of(visit.visitor)))
        return None if is_shown or session_id is None else NotFound()

    return [refusal(visit, session_id) for visit, session_id in shown]


def _read(site: Site, request: WebhookRequest) -> Visitor:
    try:
        return site.adapter.read_visitor(request, datetime.now(UTC))
    except VerificationFailed:
        raise TokenRefused from None


def _redeem(site: Site, ticket: str) -> Visitor:
    try:
        visitor, ticket_id = visitor_tokens.read_ticket(
            site.token_secret, site.account.account_id, ticket, datetime.now(UTC)
        )
    except VerificationFailed:
        raise TokenRefused from None
    if not stream_tickets.use_once(ticket_id):
        raise TokenRefused
    return visitor
