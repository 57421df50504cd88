"""Runs that have ended, and whose end their conversation could not store: the sweep tells it again."""

import logging
from collections.abc import Collection, Iterator
from datetime import timedelta
from uuid import UUID

import pytest
from django.db.models.functions import Now

from agents_app import conversation_port
from agents_app.models import Run
from agents_app.runs import hooks, reaper
from agents_app.runs.reaper import Reaper
from agents_app.types import RunTranscript
from sessions_app.services import open_session
from tests.support.engine import EngineRig

pytestmark = pytest.mark.django_db(transaction=True)

AT_ONCE = 2


@pytest.fixture
def rig(valkey: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineRig]:
    monkeypatch.setattr(reaper, "_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(hooks, "sweeps", [])
    rig = EngineRig(monkeypatch)
    rig.agent()
    yield rig
    rig.stop()


@pytest.fixture
def never_stored(monkeypatch: pytest.MonkeyPatch) -> tuple[set[UUID], list[UUID]]:
    """Runs whose end the conversation refuses, and all that it was told."""
    stored, refused, told = conversation_port.get().run_ended, set[UUID](), list[UUID]()

    def run_ended(transcript: RunTranscript) -> object:
        told.append(transcript.run.id)
        if transcript.run.id in refused:
            raise ValueError("a defect")
        return stored(transcript)

    monkeypatch.setattr(conversation_port.get(), "run_ended", run_ended)
    return refused, told


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def end_untold(rig: EngineRig, count: int) -> list[UUID]:
    """So many runs, the oldest first, whose end nobody was told."""
    ids = [rig.send(session=open_session(owner=rig.owner)).run_id for _ in range(count)]
    for age, run_id in enumerate(reversed(ids)):
        ended_at = Now() - timedelta(minutes=1 + age)
        Run.objects.filter(pk=run_id).update(status="failed", ready_at=None, ended_at=ended_at, answer="")
    return ids


def untold() -> Collection[UUID]:
    return set(Run.objects.filter(end_stored=False, ended_at__isnull=False).values_list("pk", flat=True))


def test_ends_that_can_never_be_stored_keep_no_other_waiting(
    rig: EngineRig, never_stored: tuple[set[UUID], list[UUID]]
) -> None:
    refused, _ = never_stored
    ids = end_untold(rig, AT_ONCE + 1)
    refused |= set(ids[:AT_ONCE])
    sweeping = Reaper(lambda run_id: None)
    sweeping.sweep()
    sweeping.sweep()
    assert untold() == refused


def test_an_end_that_cannot_be_stored_is_told_ever_more_seldom(
    rig: EngineRig, never_stored: tuple[set[UUID], list[UUID]], caplog: pytest.LogCaptureFixture
) -> None:
    refused, told = never_stored
    refused |= set(end_untold(rig, 1))
    clock = Clock()
    sweeping = Reaper(lambda run_id: None, clock=clock)
    with caplog.at_level(logging.ERROR):
        for _ in range(30):
            sweeping.sweep()
            clock.now += 2
    assert 4 <= len(told) <= 6 and len(caplog.records) == len(told)
    refused.clear()
    clock.now += 600
    sweeping.sweep()
    assert not untold()


def test_what_breaks_while_an_end_is_read_keeps_no_other_waiting(
    rig: EngineRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = end_untold(rig, 2)
    read = reaper.selectors.get_transcript

    def broken(run_id: UUID) -> RunTranscript:
        if run_id == first:
            raise ValueError("a row that nobody foresaw")
        return read(run_id)

    monkeypatch.setattr(reaper.selectors, "get_transcript", broken)
    Reaper(lambda run_id: None).sweep()
    assert untold() == {first} != {second}
