"""The text of an open step reaches viewers through the database while Valkey does not bring it."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents_app.providers.kinds.scripted import Reply
from audit_app.kernel.database import in_db
from audit_app.models import LiveCopy
from sessions_app.live_view.cursor import SessionEvent
from tests.integration.sessions_app.live_view.test_viewer_engine import assert_seen_is_stored, see
from tests.support.conditions import eventually
from tests.support.engine import EngineRig
from tests.support.unreachable_valkey import cut_off_worker

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


@pytest.fixture(params=["hangs", "cannot be reached"])
def cut_off(
    valkey: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[EngineRig]:
    with cut_off_worker(monkeypatch, tmp_path, hangs=request.param == "hangs") as cut_off:
        yield cut_off


async def test_text_of_a_worker_without_valkey_reaches_viewers_once(cut_off: EngineRig) -> None:
    """Without the end of the step, which would bring the text too: the model waits until a viewer has the text."""
    held, come = threading.Event(), ""
    await in_db(cut_off.agent, Reply(("One ", "two ", "three."), held_by=held))
    accepted = await in_db(cut_off.send, "go")

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


async def test_a_viewer_that_comes_later_gets_the_text_so_far(cut_off: EngineRig) -> None:
    held = threading.Event()
    await in_db(cut_off.agent, Reply(("One ", "two ", "three."), held_by=held))
    accepted = await in_db(cut_off.send, "go")

    def has_text(event: SessionEvent) -> bool:
        return event.type in ("text.delta", "snapshot") and event.payload["text"] == "One two "

    def go_on(event: SessionEvent) -> None:
        if has_text(event):
            held.set()

    try:
        await eventually(LiveCopy.objects.filter(run_id=accepted.run_id, entry__contains="two ").exists, 60)
        seen = await see(accepted, on_event=go_on, seconds=60)
    finally:
        held.set()
    assert any(has_text(event) for event in seen)


@pytest.fixture
def seen_by_all(valkey: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineRig]:
    rig = EngineRig(monkeypatch)
    rig.start()
    yield rig
    rig.stop()


async def test_a_worker_stores_text_while_a_web_process_cannot_read_it(
    seen_by_all: EngineRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though its own Valkey takes all text."""
    monkeypatch.setattr("audit_app.kernel.liveness.has_blind_process", lambda: True)
    held = threading.Event()
    await in_db(seen_by_all.agent, Reply(("One ", "two ", "three."), held_by=held))
    accepted = await in_db(seen_by_all.send, "go")
    try:
        await eventually(LiveCopy.objects.filter(run_id=accepted.run_id, entry__contains="two ").exists, 60)
    finally:
        held.set()
    await assert_seen_is_stored(accepted, await see(accepted, seconds=60))
