"""Push notifications of A2A tasks: JSON for the address of one configuration, signed by the Standard Webhooks rules.

It is no channel of the settings: nobody writes by it, and clients of A2A configure its addresses.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime

import httpx2

from sessions_app.platforms.base import SendError, VerificationFailed, WebhookRequest
from sessions_app.platforms.http import HttpAdapter, certainty_of, open_guarded_client
from sessions_app.platforms.messages import Capabilities, ChannelEvent, Chat, Outgoing, Rendered
from sessions_app.platforms.signed_post import LIFETIME_SECONDS, RETRIES, post_signed


class TaskPushes(HttpAdapter):
    """Posts notifications. A target has the id of the configuration as its chat, and `url` and so on as reference."""

    slug = "a2a-push"
    name = "A2A push"
    summary = "push notifications of A2A tasks"

    def verify(self, request: WebhookRequest, now: datetime) -> None:
        raise VerificationFailed

    def parse(self, request: WebhookRequest, now: datetime) -> Sequence[ChannelEvent]:
        return ()

    def capabilities(self, chat: Chat) -> Capabilities:
        return Capabilities(can_repeat=True, lifetime_seconds=LIFETIME_SECONDS, retries=RETRIES, account_rate=100.0)

    def render(self, markdown: str, chat: Chat) -> tuple[Rendered, ...]:
        """Return an empty message: texts for people, such as notices, are not sent."""
        return (Rendered("", ""),)

    async def send(self, message: Outgoing) -> str:
        if not message.rendered.body:
            return message.key
        url, keys, headers = _proofs(message.target.reference)
        body, now = message.rendered.body.encode(), self.clock()
        response = await post_signed(
            self.client, url, body, keys=keys, message_id=message.key, now=now, headers=headers
        )
        if not response.is_success:
            # Its `Retry-After` is ignored: the waits of a few receivers would hold up all others.
            status = response.status_code
            raise SendError(f"The address answered with status {status}.", certainty_of(status))
        return message.key

    def open_client(self) -> httpx2.AsyncClient:
        return open_guarded_client(self.account.reachable)


def _proofs(to: Mapping[str, str]) -> tuple[str, list[str], dict[str, str]]:
    """Return the URL, the keys to sign with, and the headers of requests to a target."""
    headers = {"content-type": "application/a2a+json"}
    if to["token"]:
        headers["x-a2a-notification-token"] = to["token"]
    if to["credentials"]:
        headers["authorization"] = f"{to['scheme']} {to['credentials']}"
    return to["url"], [key_of(to["token"])] if to["token"] else [], headers


def key_of(token: str) -> str:
    """Return the Standard Webhooks secret that a token stands for: its SHA-256."""
    return "whsec_" + base64.b64encode(hashlib.sha256(token.encode()).digest()).decode()
