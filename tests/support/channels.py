"""Channels on a whole gateway in one process: the real webhook, and fake platforms."""

import asyncio
import json
import threading
from typing import Any
from urllib.parse import urlsplit

from channels.routing import URLRouter
from django.conf import settings

from agents_app.providers.kinds.scripted import Reply
from sessions_app.channels import accounts
from sessions_app.channels.inbound import webhook as webhook_module
from sessions_app.integrity_checks import find_violations
from sessions_app.models import ChannelAccount, Delivery
from tests.fakes.telegram import BOT_NAME, TOKEN, FakeTelegram
from tests.fakes.webhook_receiver import SECRET, WebhookReceiver, signed_headers
from tests.support.engine import EngineRig, until
from tools_app.registry import tools
from tools_app.types import ToolCall

TELEGRAM_SECRET = "telegram-secret-0123456789"
_application = URLRouter(webhook_module.routes)


def open_to_everyone(options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an account, by default open to everyone with every registered tool and no budget."""
    return {"access": "open", "tools": [*tools.names()], "messages_per_day": 1_000_000, **options}


def add_telegram(server: FakeTelegram, **options: Any) -> ChannelAccount:
    config = {"api_url": server.url, "bot_username": BOT_NAME, "chat_seconds": 0, **options.pop("config", {})}
    secrets = {"bot_token": TOKEN, "webhook_secret": TELEGRAM_SECRET}
    account, _ = accounts.add_account("telegram", "main", config=config, secrets=secrets, **open_to_everyone(options))
    return account


def add_webhook(server: WebhookReceiver, **options: Any) -> ChannelAccount:
    settings.KOMAND_CALLBACK_ALLOW_PRIVATE = [server.address]
    config = {"callback_url": f"{server.url}/callback", **options.pop("config", {})}
    account, _ = accounts.add_account(
        "webhook", "crm", config=config, secrets={"secret": SECRET}, **open_to_everyone(options)
    )
    return account


async def request(path: str, body: bytes, headers: dict[str, str], method: str = "POST") -> tuple[int, Any]:
    """Return the status and body of the webhook's response, parsed if it is JSON."""
    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
    }
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await _application(scope, receive, send)
    answer = b"".join(message.get("body", b"") for message in sent)
    is_json = (b"content-type", b"application/json") in sent[0]["headers"]
    return sent[0]["status"], (json.loads(answer) if is_json else answer.decode()) if answer else None


def post(path: str, body: bytes, headers: dict[str, str], method: str = "POST") -> tuple[int, Any]:
    webhook_module.known_accounts.forget()
    return asyncio.run(request(path, body, headers, method))


def telegram(update: Any, secret: str = TELEGRAM_SECRET) -> int:
    headers = {"content-type": "application/json", "x-telegram-bot-api-secret-token": secret}
    return post("/channels/telegram/main/webhook", json.dumps(update).encode(), headers)[0]


def webhook(text: str, message_id: str, *, sender: str = "u-42", **data: Any) -> tuple[int, Any]:
    body = json.dumps({"type": "message.received", "data": {"senderId": sender, "text": text, **data}}).encode()
    return post("/channels/webhook/crm/webhook", body, signed_headers(message_id, body))


def all_settled(count: int | None = None) -> bool:
    """Return whether no delivery is open, and there are as many as expected."""
    rows = list(Delivery.objects.values_list("status", flat=True))
    is_done = all(status not in (*Delivery.OPEN, "draft") for status in rows)
    return is_done and len(rows) >= (1 if count is None else count)


def settle(rig: EngineRig, count: int | None = None, seconds: float = 60) -> list[str]:
    """Wait until all deliveries have ended and the invariants hold; return the statuses in the order of sending."""
    until(lambda: all_settled(count), seconds)
    try:
        until(lambda: not find_violations(), 10)  # it may pass through a state that is one for a moment
    except AssertionError:
        assert find_violations() == []
    return list(Delivery.objects.order_by("id").values_list("status", flat=True))


def in_steps(*texts: str) -> tuple[list[Reply], list[threading.Event]]:
    """Return the replies of a run with that many steps, and the events that hold back the last piece of each."""
    call, held = (ToolCall("c1", "echo", '{"text": "x"}'),), [threading.Event() for _ in texts]
    pieces = [(f"{head} ", tail) for head, _, tail in (text.rpartition(" ") for text in texts)]
    replies = [Reply(said, tool_calls=call, held_by=event) for said, event in zip(pieces, held, strict=True)]
    return [*replies[:-1], Reply(pieces[-1], held_by=held[-1])], held


def host_of(url: str) -> str:
    return urlsplit(url).netloc
