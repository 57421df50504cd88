"""Visitors of a site, for tests of the web chat."""

import asyncio
import base64
import hashlib
import hmac
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from audit_app import follow
from komand import asgi
from sessions_app.channels import accounts
from sessions_app.channels.inbound import dispatch
from sessions_app.models import ChannelAccount, Session
from sessions_app.platforms.adapters.web import visitor_tokens
from sessions_app.platforms.adapters.web.visitor_tokens import Visitor
from sessions_app.platforms.base import WebhookRequest
from sessions_app.surfaces.webchat.visitor_admission import get_site
from tests.support.channels import open_to_everyone
from tests.support.rest import LiveCaller, make_agent

SITE = "https://www.example.org"
IDENTITY_SECRET = "identity-secret-of-the-site-0123456789"
TOKEN_SECRET = "token-secret-of-the-account-0123456789"
SECRETS = {"identity_secret": IDENTITY_SECRET, "token_secret": TOKEN_SECRET}


def add_web(account_id: str = "site", **options: Any) -> ChannelAccount:
    config = {"origins": [SITE], **options.pop("config", {})}
    secrets = options.pop("secrets", SECRETS)
    account, _ = accounts.add_account("web", account_id, config=config, secrets=secrets, **open_to_everyone(options))
    return account


def visitor(**fields: Any) -> Visitor:
    expires_at = datetime.now(UTC) + timedelta(hours=1)
    return replace(Visitor("anon-ann", "c1", "Ann", is_native=False, expires_at=expires_at), **fields)


def token(account_id: str = "site", secret: str = TOKEN_SECRET, **fields: Any) -> str:
    return visitor_tokens.issue_token(secret, account_id, visitor(**fields), datetime.now(UTC))


def message(text: str = "Hello", **fields: Any) -> dict[str, Any]:
    return {"clientMessageId": str(uuid4()), "text": text, **fields}


def user_hash(user_id: str) -> str:
    return hmac.new(IDENTITY_SECRET.encode(), user_id.encode(), hashlib.sha256).hexdigest()


def request_of(bearer: str, body: Any) -> WebhookRequest:
    headers = {"authorization": [f"Bearer {bearer}"], "content-type": ["application/json"]}
    return WebhookRequest(json.dumps(body).encode(), headers)


class Visited:
    """A visitor with a token in an app, and a conversation in which a message waits. key: the token."""

    def __init__(self) -> None:
        make_agent()
        self._account = add_web()
        known, self.key = visitor(is_native=True), token(is_native=True)
        site = get_site("site")
        sent = request_of(self.key, message())
        dispatch.handle_events(site.account, site.adapter, site.adapter.parse(sent, datetime.now(UTC)), sent.body)
        self.session = Session.objects.get(key=str(site.key_of(known)))

    def revoke(self) -> None:
        accounts.set_enabled(self._account, False)


@dataclass(frozen=True)
class Answer:
    status: int
    data: Any
    headers: dict[str, str]


async def ask(method: str, path: str, body: Any = None, *, bearer: str = "", **headers: str) -> Answer:
    """Send a request to the whole application, from a page of the site unless another Origin is given.

    path: behind /webchat/. body: a JSON value, or bytes. An empty Origin is left out.
    """
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    sent = {name: value for name, value in {"Origin": SITE, **headers}.items() if value}
    caller = LiveCaller(asgi.application, bearer=bearer)
    await caller._send_request(method, f"/webchat/{path}", [data], sent)
    status, found, received = caller._received()
    names = {name.lower(): value for name, value in found.items()}
    is_json = names.get("content-type") == "application/json"
    return Answer(status, json.loads(received) if is_json and received else received, names)


@dataclass(frozen=True)
class PageEvent:
    id: str
    name: str
    data: dict[str, Any]


def post(path: str, body: Any = None, *, bearer: str = "", **headers: str) -> Answer:
    return asyncio.run(ask("POST", path, {} if body is None else body, bearer=bearer, **headers))


def get(path: str, **headers: str) -> Answer:
    return asyncio.run(ask("GET", path, **headers))


def encoded(data: bytes) -> str:
    """Return the bytes as a part of a token, or of a button's id."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def read_events(bearer: str, last: str, *, account: str = "site", last_id: str = "") -> list[PageEvent]:
    """Follow the conversation until an event of that name has come. Return all events."""
    return asyncio.run(_read_events(bearer, last, f"/webchat/{account}/events", {"Last-Event-ID": last_id}))


async def _read_events(bearer: str, last: str, path: str, headers: dict[str, str]) -> list[PageEvent]:
    caller = LiveCaller(asgi.application, bearer=bearer)
    sent = {name: value for name, value in headers.items() if value}
    stream = asyncio.create_task(caller._send_request("GET", path, [b""], sent))
    try:
        async with asyncio.timeout(30):
            while not any(event.name == last for event in _events(caller)) and not stream.done():
                await asyncio.sleep(0.02)
        return _events(caller)
    finally:
        caller.leave()
        await asyncio.wait({stream}, timeout=60)
        await follow.current_follower().aclose()


def _events(caller: LiveCaller) -> list[PageEvent]:
    text = b"".join(message.get("body", b"") for message in caller.sent).decode()
    blocks = [block for block in text.split("\n\n")[:-1] if not block.startswith(":")]
    fields = [dict(line.partition(": ")[::2] for line in block.split("\n")) for block in blocks]
    return [PageEvent(field["id"], field["event"], json.loads(field["data"])) for field in fields]
