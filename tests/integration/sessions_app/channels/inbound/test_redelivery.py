"""A thousand deliveries of fifty messages, repeated and out of order, by each way in: each message is answered once."""

import asyncio
import json
from collections import Counter
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from audit_app.kernel.database import in_db
from sessions_app.channels.connections import claims
from sessions_app.channels.connections.holder import ActiveLink
from sessions_app.channels.inbound.webhook import known_accounts
from sessions_app.models import ChannelAccount, ChannelConnection, Delivery, InboundMessage, Session
from sessions_app.platforms.adapters.telegram.long_poll import poll
from sessions_app.platforms.adapters.telegram.updates import Bot
from sessions_app.platforms.link import ConnectionLost
from tests.fakes.telegram import BOT_NAME, FakeTelegram, private_update
from tests.support.channels import TELEGRAM_SECRET, add_telegram, request, settle
from tests.support.engine import EngineRig

# A thousand deliveries take too long for the tests of every change.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.whole, pytest.mark.timeout(300)]

MESSAGES, TIMES, AT_ONCE = 50, 20, 8
PATH = "/channels/telegram/main/webhook"


def deliveries() -> list[dict[str, Any]]:
    updates = [private_update(number, f"question {number}", user=1000 + number) for number in range(MESSAGES)]
    repeated = updates * TIMES
    Random(14).shuffle(repeated)
    return repeated


def each_was_answered_once(rig: EngineRig, platform: FakeTelegram) -> bool:
    assert settle(rig, MESSAGES, seconds=180) == ["sent"] * MESSAGES
    assert Run.objects.count() == InboundMessage.objects.count() == Session.objects.count() == MESSAGES
    assert set(Run.objects.values_list("status", flat=True)) == {"completed"}
    assert Delivery.objects.values("run_id").distinct().count() == MESSAGES
    return platform.messages.keys() == set(range(1000, 1000 + MESSAGES)) and all(
        list(chat.values()) == ["fine"] for chat in platform.messages.values()
    )


def test_by_webhook(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(("fine",)))
    add_telegram(platform, config={"drafts": False})
    waiting, statuses = deliveries(), Counter[int]()
    headers = {"content-type": "application/json", "x-telegram-bot-api-secret-token": TELEGRAM_SECRET}

    async def deliver() -> None:
        while waiting:
            status, _ = await request(PATH, json.dumps(waiting.pop()).encode(), headers)
            statuses[status] += 1

    async def deliver_all() -> None:
        await asyncio.gather(*(deliver() for _ in range(AT_ONCE)))

    known_accounts.forget()  # those of other tests
    asyncio.run(deliver_all())
    assert statuses == {200: MESSAGES * TIMES}
    assert each_was_answered_once(rig, platform)


def test_by_long_polling(rig: EngineRig, platform: FakeTelegram) -> None:
    """As from a server that forgets what was confirmed, and over connections that are cut after each batch or two."""
    rig.agent(Reply(("fine",)))
    account = add_telegram(platform, config={"drafts": False, "receive": "polling"})
    asyncio.run(_receive(account, deliveries()))
    assert each_was_answered_once(rig, platform)
    assert ChannelConnection.objects.get().cursor


async def _receive(account: ChannelAccount, updates: list[dict[str, Any]]) -> None:
    """Receive the updates, twenty in a response; after every second one the connection is lost and opened again."""
    holder, cursor = uuid4(), ""
    assert await in_db(claims.claim, account, holder, set())
    responses: list[list[dict[str, Any]] | None] = []
    for first in range(0, len(updates), 40):
        responses += [updates[first : first + 20], updates[first + 20 : first + 40], None]

    async def fetch(method: str, **options: Any) -> list[dict[str, Any]]:
        if (response := responses.pop(0)) is None:
            raise ConnectionLost("cut")
        return response

    while responses:
        link = ActiveLink(account, holder, cursor)
        with pytest.raises(ConnectionLost):
            await poll(fetch, link, Bot("123456789", BOT_NAME))
        cursor = link.cursor
