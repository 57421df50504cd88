"""Requests to `/v1/agent/ask` that are cut: by their client, or because the server shuts down."""

import asyncio
import json
import threading
from typing import Any

import pytest
from channels.routing import URLRouter
from django.contrib.auth.models import User

from agents_app.models import Agent, Run
from audit_app.kernel.database import in_db
from sessions_app.identity.api_keys import create_api_key
from sessions_app.surfaces.threads import consumers, direct_answers
from tests.support.rest import LiveCaller

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

REQUEST = ("POST", "/v1/agent/ask", {"agent_id": "default", "prompt": "Hi"})


class HeldMessage:
    """Holds the storing of a message until the test releases it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._is_storing, self._may_store, self._send = threading.Event(), threading.Event(), direct_answers._send
        monkeypatch.setattr(direct_answers, "_send", self._hold)

    def _hold(self, *arguments: Any) -> Any:
        self._is_storing.set()
        assert self._may_store.wait(60)
        return self._send(*arguments)

    async def release_after(self, caller: LiveCaller, cut: Any) -> None:
        """Cut the request while its message is being stored, then release that."""
        request = asyncio.create_task(caller.ask(*REQUEST))
        assert await asyncio.to_thread(self._is_storing.wait, 60)
        cut(request)
        for _ in range(5):
            await asyncio.sleep(0)
        self._may_store.set()
        await asyncio.gather(request, return_exceptions=True)


@pytest.fixture
def caller(default_agent: Agent, alice: User) -> LiveCaller:
    return LiveCaller(URLRouter(consumers.routes), bearer=create_api_key(alice, "k", scopes=["all"]).key)


async def test_a_client_that_leaves_while_its_message_is_stored_stops_the_run(
    caller: LiveCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await HeldMessage(monkeypatch).release_after(caller, lambda request: caller.leave())
    run = await in_db(Run.objects.get)
    assert (run.status, run.error_message) == ("cancelled", "The client left.")


async def test_a_shutdown_is_reported_and_stops_the_run(caller: LiveCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    await HeldMessage(monkeypatch).release_after(caller, lambda request: request.cancel())
    run = await in_db(Run.objects.get)
    assert (run.status, run.error_message) == ("cancelled", "The server restarted.")
    status, _, body = caller._received()
    assert status == 503 and "restarts" in json.dumps(json.loads(body))
