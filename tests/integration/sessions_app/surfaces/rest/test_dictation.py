"""POST /api/transcriptions: the words of a recording, for a page or a program; and the button on the page."""

import json
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest
from channels.routing import URLRouter
from django.contrib.auth.models import User
from django.test import Client

from agents_app.models import Agent, DailyUsage, ModelProvider
from agents_app.providers import registry
from audit_app.kernel.database import in_db
from sessions_app.identity import access_tokens
from sessions_app.surfaces.rest import consumers
from tests.fakes.model_server import ModelServer
from tests.integration.sessions_app.surfaces.openai.test_transcriptions import wav
from tests.support.rest import LiveCaller, make_agent, make_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture
async def provider(default_agent: Agent, server: ModelServer) -> AsyncIterator[ModelProvider]:
    fields = {"kind": "openai", "base_url": server.base_url, "transcription_model": "whisper-1"}
    row = await in_db(partial(ModelProvider.objects.create, name="own", **fields))
    await in_db(Agent.objects.filter(pk=default_agent.pk).update, provider=row)
    yield row
    await registry.aclose_all()


async def dictate(user: User, audio: bytes, query: str = "") -> tuple[int, Any]:
    login = await in_db(access_tokens.open_login, user)
    live = LiveCaller(URLRouter(consumers.routes), bearer=login.access)
    await live._send_request("POST", f"/api/transcriptions{query}", [audio], {"content-type": "audio/wav"})
    status, _, body = live._received()
    return status, json.loads(body)


async def test_the_words_are_returned_and_charged(alice: User, provider: ModelProvider) -> None:
    status, answer = await dictate(alice, wav('text="Buy milk."'))
    assert (status, answer["data"]) == (200, {"text": "Buy milk."})
    usage = await in_db(DailyUsage.objects.get)
    assert (usage.agent_id, usage.model) == ("default", "whisper-1")


async def test_what_cannot_be_transcribed_is_refused(alice: User, provider: ModelProvider) -> None:
    status, answer = await dictate(alice, b"not audio")
    assert (status, answer["meta"]["code"]) == (400, "unsupported_file_type")
    await in_db(partial(make_agent, "secret", is_shared_with_everyone=False))
    assert (await dictate(alice, wav(""), "?agentId=secret"))[0] == 404
    await in_db(ModelProvider.objects.update, transcription_model="")
    status, answer = await dictate(alice, wav(""))
    assert (status, answer["meta"]["code"]) == (400, "unsupported_model")


def test_the_page_has_a_button_where_an_agent_takes_dictation(default_agent: Agent) -> None:
    browser = Client()
    browser.force_login(make_user("zoe"), "django.contrib.auth.backends.ModelBackend")
    page = browser.get("/chat/new")
    assert 'id="dictate"' not in page.content.decode() and "microphone=()" in page["Permissions-Policy"]
    ModelProvider.objects.update(transcription_model="whisper-1")
    page = browser.get("/chat/new")
    assert 'id="dictate"' in page.content.decode() and "data-hears" in page.content.decode()
    assert "microphone=(self)" in page["Permissions-Policy"]
