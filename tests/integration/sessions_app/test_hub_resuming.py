"""A client of the hub that comes back in mid-answer, on the real Valkey and database."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis

from audit_app import follow
from audit_app.kernel.database import in_db
from sessions_app.identity.principal import Principal
from sessions_app.models import Session
from sessions_app.surfaces.signalr.hub import Hub
from tests.integration.audit_app.timelines import RUN_QUEUED, RUN_STARTED, Conversation
from tests.support.rest import make_session, make_user

pytestmark = pytest.mark.django_db(transaction=True)

AT = "2.1-2"  # behind the first piece of the text


@pytest.fixture
async def conversation(valkey: "redis.Redis") -> AsyncIterator[Conversation]:
    """A session whose run has said "Hel", and no more yet."""
    conversation = Conversation(valkey)
    session: Session = await in_db(lambda: make_session(make_user("alice")))
    conversation.id = session.pk
    await conversation.keep(RUN_QUEUED, agent_id="default", ordinal=0)
    await conversation.keep(RUN_STARTED, agent_id="default", fence=1)
    conversation.live("1-1", "run.claimed", fence=1)
    conversation.text("1-2", 0, 0, "Hel")
    yield conversation
    await follow.current_follower().aclose()


async def told_after(conversation: Conversation, *resume: str, until: str) -> str:
    """The text that a client is told which resumes like that while a second worker begins the answer anew."""
    told: asyncio.Queue[str] = asyncio.Queue()

    async def send(frame: str) -> None:
        for record in filter(None, frame.split("\x1e")):
            said: dict[str, Any] = json.loads(record)
            if said.get("target") == "ReceiveToken":
                told.put_nowait(said["arguments"][1])

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
            text += await told.get()
    await hub.end()
    return text


async def test_who_has_the_beginning_is_not_told_it_again_after_a_crash(conversation: Conversation) -> None:
    assert await told_after(conversation, AT, until="lo.") == "lo."


async def test_whose_beginning_nobody_knows_any_more_is_told_the_whole_text_as_another_one(
    conversation: Conversation, valkey: "redis.Redis"
) -> None:
    valkey.flushdb()
    assert await told_after(conversation, AT, until="Hello.") == "\n\nHello."


async def test_who_comes_for_what_follows_is_told_the_text_from_its_beginning(conversation: Conversation) -> None:
    assert await told_after(conversation, until="Hello.") == "Hello."
