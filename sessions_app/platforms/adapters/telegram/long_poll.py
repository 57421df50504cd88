"""Long polling of a bot's updates (https://core.telegram.org/bots/api#getupdates), for bots without a webhook.

The cursor is the offset: a request with it has Telegram delete all updates before it, and return those after it.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

import httpx2

from sessions_app.platforms.adapters.telegram.updates import Bot, read_update
from sessions_app.platforms.base import MIB, SendCertainty, SendError
from sessions_app.platforms.link import ConnectionLost, CredentialsRefused, Link, NeedsAttention, Received

UPDATES = [
    "message",
    "edited_message",
    "message_reaction",
    "callback_query",
    "my_chat_member",
    "stopped_message_generation",
]
# Telegram answers an idle request after this time, which is the heartbeat.
POLL_SECONDS = 30
_MARGIN_SECONDS = 10.0
# A Bot API server that does not wait is asked no more often than this.
_LEAST_SECONDS = 1.0
_AT_ONCE = 50
_MOST_BYTES = 8 * MIB

Request = Callable[..., Awaitable[Any]]


async def poll(request: Request, link: Link, bot: Bot) -> None:
    """Fetch updates until cancelled. request: calls a method. Raises ConnectionLost, NeedsAttention."""
    # The first request is answered at once: it shows that the connection works, and fetches what has piled up.
    seconds, offset = 0, int(link.cursor or 0)
    while True:
        begun = monotonic()
        updates = await _fetch(request, offset, seconds)
        link.heartbeat()
        if seconds and not updates:
            await asyncio.sleep(_LEAST_SECONDS - (monotonic() - begun))
        # After an empty answer, all updates before the offset are deleted. Without one, Telegram may number the next
        # updates anew, as it does after a week without any.
        seconds, offset = POLL_SECONDS, _following(updates) if updates else 0
        if updates:
            received = [Received(read_update(update, bot), json.dumps(update).encode()) for update in updates]
            await link.deliver(received, str(offset))


async def _fetch(request: Request, offset: int, seconds: int) -> list[Any]:
    timeout = httpx2.Timeout(seconds + _MARGIN_SECONDS, connect=5.0, pool=5.0)
    fields = {"offset": offset, "timeout": seconds, "limit": _AT_ONCE, "allowed_updates": UPDATES}
    try:
        updates = await request("getUpdates", json=fields, timeout=timeout, most_bytes=_MOST_BYTES)
    except SendError as error:
        raise _reason(error) from None
    if not isinstance(updates, list):
        raise ConnectionLost("Telegram's list of updates cannot be parsed.")
    return updates


def _following(updates: list[Any]) -> int:
    """Return the offset behind these updates. Raises ConnectionLost if one of them has no id."""
    try:
        return max(int(update["update_id"]) for update in updates) + 1
    except (KeyError, TypeError, ValueError):
        raise ConnectionLost("Telegram's list of updates cannot be parsed.") from None


def _reason(error: SendError) -> ConnectionLost | NeedsAttention:
    """Return what a failed request means for the connection."""
    if "webhook is active" in error.message:
        problem = (
            "Telegram sends the updates to a webhook. Test the account, which removes it, or set receive to webhook."
        )
        return NeedsAttention(problem)
    if error.ends_account or (error.certainty is SendCertainty.REFUSED and "Not Found" in error.message):
        return CredentialsRefused("Telegram refuses the bot_token: enter it again, as @BotFather shows it.")
    if "terminated by other getUpdates" in error.message:
        problem = "Another program fetches the updates of this bot. Stop it, or give it a bot of its own."
        return ConnectionLost(problem, retry_after_seconds=error.retry_after_seconds or 0.0)
    return ConnectionLost(error.message, retry_after_seconds=error.retry_after_seconds or 0.0)
