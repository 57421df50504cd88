"""The text of an open step reaches viewers through the database while Valkey does not bring it."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.conf import settings

from agents_app.providers.kinds.scripted import Reply
from audit_app import follow
from audit_app.kernel.database import in_db
from audit_app.models import LiveCopy
from sessions_app.live_view.cursor import SessionEvent
from tests.integration.sessions_app.test_watch_engine import assert_seen_is_stored, see
from tests.support.engine import EngineRig

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
async def follower() -> AsyncIterator[None]:
    yield
    await follow.current_follower().aclose()


@contextmanager
def hanging_server(place: Path) -> Iterator[str]:
    """Yield the URL of a server that takes connections and never answers."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        server.listen(64)
        yield f"unix://{place}"


@pytest.fixture(params=["hangs", "cannot be reached"])
def rig(
    valkey: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[EngineRig]:
    """A worker whose live text does not reach Valkey, beside viewers whose Valkey works."""
    rig, working = EngineRig(monkeypatch), settings.KOMAND_REDIS_URL
    with hanging_server(tmp_path / "hangs.sock") as url:
        monkeypatch.setattr(settings, "KOMAND_REDIS_URL", url if request.param == "hangs" else f"unix://{tmp_path}/no")
        rig.start()
        monkeypatch.setattr(settings, "KOMAND_REDIS_URL", working)
        yield rig
        rig.stop()


async def test_text_of_a_worker_without_valkey_reaches_viewers_once(rig: EngineRig) -> None:
    """Without the end of the step, which would bring the text too: the model waits until a viewer has the text."""
    held, come = threading.Event(), ""
    await in_db(rig.agent, Reply(("One ", "two ", "three."), held_by=held))
    accepted = await in_db(rig.send, "go")

    def go_on(event: SessionEvent) -> None:
        nonlocal come
        if event.type in ("text.delta", "snapshot") and not held.is_set():
            come += event.payload["text"]
            if come == "One two ":
                held.set()

    try:
        seen = await see(accepted, on_event=go_on, seconds=60)
    finally:
        held.set()
    assert come == "One two "
    await assert_seen_is_stored(accepted, seen)


async def test_a_viewer_that_comes_later_gets_the_text_so_far(rig: EngineRig) -> None:
    held = threading.Event()
    await in_db(rig.agent, Reply(("One ", "two ", "three."), held_by=held))
    accepted = await in_db(rig.send, "go")

    def has_text(event: SessionEvent) -> bool:
        return event.type in ("text.delta", "snapshot") and event.payload["text"] == "One two "

    def go_on(event: SessionEvent) -> None:
        if has_text(event):
            held.set()

    try:
        async with asyncio.timeout(60):
            while not await in_db(LiveCopy.objects.filter(run_id=accepted.run_id, entry__contains="two ").exists):
                await asyncio.sleep(0.05)
        seen = await see(accepted, on_event=go_on, seconds=60)
    finally:
        held.set()
    assert any(has_text(event) for event in seen)
