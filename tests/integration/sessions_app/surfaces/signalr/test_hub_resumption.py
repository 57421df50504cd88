"""A client of the hub that resumes during an answer, with the real Valkey and database."""

import asyncio
import json
from typing import Any

import pytest
import redis

from audit_app.kernel.database import in_db
from sessions_app.identity.principal import Principal
from sessions_app.models import Session
from sessions_app.surfaces.signalr.hub import Hub
from tests.integration.audit_app.timelines import RUN_QUEUED, RUN_STARTED, Conversation
from tests.support.rest import make_session, make_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

AT = "2.1-2"  # after the first piece of the text


@pytest.fixture
async def conversation(valkey: "redis.Redis") -> Conversation:
    """Return a session whose run has streamed only "Hel"."""
    conversation = Conversation(valkey)
    session: Session = await in_db(lambda: make_session(make_user("alice")))
    conversation.id = session.pk
    await conversation.keep(RUN_QUEUED, agent_id="default", ordinal=0)
    await conversation.keep(RUN_STARTED, agent_id="default", fence=1)
    conversation.live("1-1", "run.claimed", fence=1)
    conversation.text("1-2", 0, 0, "Hel")
    return conversation


async def text_after(conversation: Conversation, *resume: str, until: str) -> str:
    """Return the text that a resuming client receives while a second worker starts the answer again."""
    tokens: asyncio.Queue[str] = asyncio.Queue()

    async def send(frame: str) -> None:
        for record in filter(None, frame.split("\x1e")):
            call: dict[str, Any] = json.loads(record)
            if call.get("target") == "ReceiveToken":
                tokens.put_nowait(call["arguments"][1])

    session = await in_db(Session.objects.select_related("owner").get, pk=conversation.id)
    hub = Hub(Principal(session.owner, "jwt"), send)
    await hub.resume(str(conversation.id), *resume)
    conversation.live("2-1", "run.claimed", fence=2)
    conversation.live("2-2", "message.reset", 0, reason="resumed")
    conversation.text("2-3", 0, 0, "Hel")
    conversation.text("2-4", 0, 3, "lo.")
    text = ""
    async with asyncio.timeout(30):
        while not text.endswith(until):
            text += await tokens.get()
    await hub.end()
    return text


async def test_text_that_the_client_has_is_not_repeated_after_a_crash(conversation: Conversation) -> None:
    assert await text_after(conversation, AT, until="lo.") == "lo."


async def test_the_whole_text_follows_if_it_is_unknown_what_the_client_has(
    conversation: Conversation, valkey: "redis.Redis"
) -> None:
    valkey.flushdb()
    assert await text_after(conversation, AT, until="Hello.") == "\n\nHello."


async def test_a_client_without_a_position_gets_the_open_text_whole(conversation: Conversation) -> None:
    assert await text_after(conversation, until="Hello.") == "Hello."
