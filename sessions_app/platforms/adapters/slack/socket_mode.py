"""Socket Mode (https://docs.slack.dev/apis/events-api/using-socket-mode): payloads over a WebSocket that we open.

Slack sends a payload again over the next connection unless it was acknowledged, so there is no cursor to resume at.
"""

import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import datetime
from typing import Any

from sessions_app.platforms.adapters.slack.events import Bot, read_payload, receipt_of
from sessions_app.platforms.base import SendCertainty, SendError
from sessions_app.platforms.link import ConnectionLost, CredentialsRefused, Link, Received
from sessions_app.platforms.web_socket import open_socket, read_messages

_REFUSED = ("invalid_auth", "not_authed", "account_inactive", "token_revoked", "not_allowed_token_type")


async def listen(
    open_connection: Callable[[], Awaitable[Any]], link: Link, bot: Bot, clock: Callable[[], datetime]
) -> None:
    """Receive payloads until cancelled. open_connection: calls `apps.connections.open`.

    Raises ConnectionLost, CredentialsRefused.
    """
    try:
        url = str((await open_connection())["url"])
    except SendError as error:
        raise _reason(error) from None
    async with open_socket(url) as socket, aclosing(read_messages(socket, link)) as messages:
        async for message in messages:
            if message.get("type") == "disconnect":
                # Slack renews connections every few hours: the next one is opened at once.
                raise ConnectionLost(f"Slack ended the connection ({message.get('reason', 'no reason')}).")
            if envelope := message.get("envelope_id"):
                event = read_payload(message.get("payload"), bot, clock())
                raw = json.dumps(message.get("payload")).encode()
                await link.deliver([Received(event, raw)], str(envelope))
                receipt = receipt_of(event) if message.get("accepts_response_payload") else None
                await socket.send(json.dumps({"envelope_id": envelope, **({"payload": receipt} if receipt else {})}))


def _reason(error: SendError) -> ConnectionLost | CredentialsRefused:
    if error.certainty is SendCertainty.REFUSED and any(code in error.message for code in _REFUSED):
        return CredentialsRefused(
            "Slack refuses the app_token: create one with the scope connections:write under Basic Information, "
            "App-Level Tokens, and switch Socket Mode on."
        )
    return ConnectionLost(error.message, retry_after_seconds=error.retry_after_seconds or 0.0)
