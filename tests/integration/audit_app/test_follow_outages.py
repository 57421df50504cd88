"""Subscriptions while Valkey is unavailable, and after it has lost its data."""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
import redis
from django.db import OperationalError

from audit_app import live_copies
from audit_app.follow import Follower
from audit_app.follow.items import START
from audit_app.follow.stream_reader import StreamReader
from audit_app.kernel import valkey as kernel_valkey
from audit_app.kernel.database import in_db
from audit_app.stream import Copy
from audit_app.timeline import list_news
from tests.integration.audit_app.test_follow import listening, take
from tests.integration.audit_app.timelines import RUN_QUEUED, RUN_STARTED
from tests.support.conditions import happens
from tests.support.killed_valkey import OwnValkey
from tests.support.unreachable_valkey import hanging_server

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


@pytest.fixture
def server(tmp_path: Path, settings) -> Iterator[OwnValkey]:
    server = OwnValkey(tmp_path / "own.sock")
    settings.KOMAND_REDIS_URL = f"unix://{tmp_path}/own.sock"
    _forget_clients()
    yield server
    server.kill()
    server.client.close()
    _forget_clients()


def _forget_clients() -> None:
    kernel_valkey.sync_client.cache_clear()
    kernel_valkey._senders.clear()


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


def copy_of(conversation, n: int, text: str) -> Copy:
    return Copy(conversation.run_id, 1, n, {"type": "snapshot", "step": 0, "text": text})


async def test_a_copy_of_live_text_arrives_while_the_stream_is_silent(follower, conversation, server, monkeypatch):
    monkeypatch.setattr("audit_app.follow.copy_reader._SILENT_SECONDS", 0)
    subscription = await listening(follower, conversation)
    await conversation.keep(RUN_QUEUED)
    await take(subscription, 1)
    server.kill()
    for n, text in ((3, "one "), (7, "one two")):
        await in_db(live_copies.store, [copy_of(conversation, n, text)])
        [entry] = await take(subscription, 1)
        assert (entry.position, entry.payload) == ((1, n), {"text": text})
    [entry] = await follower.read_stream(conversation.run_id)  # for a viewer that comes now
    assert entry.payload == {"text": "one two"}
    await in_db(live_copies.store, [Copy(conversation.run_id, 2, 1, {"type": "snapshot", "step": 0, "text": "again"})])
    assert [entry.position for entry in await take(subscription, 1)] == [(2, 1)]


async def test_no_copies_are_looked_for_while_the_streams_move(follower, conversation, monkeypatch):
    """Nor while there is none: the working path costs no statement."""
    look = Mock(return_value=[])
    monkeypatch.setattr(live_copies, "list_newer", look)
    monkeypatch.setattr("audit_app.follow.copy_reader._SILENT_SECONDS", 600)
    subscription = await listening(follower, conversation)
    await conversation.keep(RUN_QUEUED)
    conversation.text("1-1", 0, 0, "text")
    await take(subscription, 2)
    heads = Mock(return_value={})
    monkeypatch.setattr("audit_app.timeline.list_heads", heads)
    await happens(lambda: heads.call_count >= 2)  # the first poll has ended
    assert not look.called


async def test_a_follower_whose_valkey_hangs_notes_that_it_is_blind(conversation, tmp_path, settings, monkeypatch):
    monkeypatch.setattr("audit_app.follow.stream_reader._PING_SECONDS", 0.05)
    noted: list[bool] = []
    monkeypatch.setattr("audit_app.kernel.liveness.set_blind", noted.append)
    with hanging_server(tmp_path / "hangs.sock") as url:
        settings.KOMAND_REDIS_URL = url
        follower = Follower()
        follower.subscribe(conversation.id)
        follower.watch_run(conversation.id, conversation.run_id, START)
        await happens(lambda: noted == [True])
        await follower.aclose()


async def test_no_follower_is_blind_while_valkey_answers(follower, conversation, monkeypatch):
    """Though a model says nothing for long."""
    noted: list[bool] = []
    found: list[bool] = []
    can_read = StreamReader.can_read

    async def look(reader: StreamReader) -> bool:
        found.append(await can_read(reader))
        return found[-1]

    monkeypatch.setattr("audit_app.kernel.liveness.set_blind", noted.append)
    monkeypatch.setattr(StreamReader, "can_read", look)
    await listening(follower, conversation)
    follower.watch_run(conversation.id, conversation.run_id, START)
    await happens(lambda: len(found) >= 4)
    assert set(found) == {True} and noted == []


def test_a_late_write_of_an_older_claim_does_not_hide_the_newer_copy(conversation):
    live_copies.store([Copy(conversation.run_id, 2, 1, {"text": "new"})])
    live_copies.store([copy_of(conversation, 99, "old")])
    [found] = live_copies.list_newer({conversation.run_id: (0, 0)})
    assert (found.fence, found.n) == (2, 1)
    assert live_copies.list_newer({conversation.run_id: (2, 1)}) == []
