"""Run ends that the conversation could not store: the sweep stores them later."""

import logging
from collections.abc import Collection
from datetime import timedelta
from uuid import UUID

import pytest
from django.db.models.functions import Now

from agents_app import conversation_port, selectors
from agents_app.models import Run
from agents_app.runs import hooks, reaper
from agents_app.runs.reaper import Reaper
from agents_app.types import RunTranscript
from sessions_app.services import open_session
from tests.support.engine import EngineRig

pytestmark = pytest.mark.django_db(transaction=True)

AT_ONCE = 2


@pytest.fixture(autouse=True)
def _small_sweeps(idle: EngineRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaper, "_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(hooks, "sweeps", [])
    idle.agent()


@pytest.fixture
def never_stored(monkeypatch: pytest.MonkeyPatch) -> tuple[set[UUID], list[UUID]]:
    """Return the runs whose end the conversation rejects, and all attempts to store an end."""
    stored, refused, attempts = conversation_port.get().run_ended, set[UUID](), list[UUID]()

    def run_ended(transcript: RunTranscript) -> object:
        attempts.append(transcript.run.id)
        if transcript.run.id in refused:
            raise ValueError("a defect")
        return stored(transcript)

    monkeypatch.setattr(conversation_port.get(), "run_ended", run_ended)
    return refused, attempts


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def end_unstored(idle: EngineRig, count: int) -> list[UUID]:
    """Make runs, oldest first, whose end is not stored."""
    ids = [idle.send(session=open_session(owner=idle.owner)).run_id for _ in range(count)]
    for age, run_id in enumerate(reversed(ids)):
        ended_at = Now() - timedelta(minutes=1 + age)
        Run.objects.filter(pk=run_id).update(status="failed", ready_at=None, ended_at=ended_at, answer="")
    return ids


def missed() -> Collection[UUID]:
    return set(Run.objects.filter(end_stored=False, ended_at__isnull=False).values_list("pk", flat=True))


def test_ends_that_cannot_be_stored_do_not_delay_others(
    idle: EngineRig, never_stored: tuple[set[UUID], list[UUID]]
) -> None:
    refused, _ = never_stored
    ids = end_unstored(idle, AT_ONCE + 1)
    refused |= set(ids[:AT_ONCE])
    sweeping = Reaper(lambda run_id: None)
    sweeping.sweep()
    sweeping.sweep()
    assert missed() == refused


def test_the_retries_of_an_end_that_cannot_be_stored_back_off(
    idle: EngineRig, never_stored: tuple[set[UUID], list[UUID]], caplog: pytest.LogCaptureFixture
) -> None:
    refused, attempts = never_stored
    refused |= set(end_unstored(idle, 1))
    clock = Clock()
    sweeping = Reaper(lambda run_id: None, clock=clock)
    with caplog.at_level(logging.ERROR):
        for _ in range(30):
            sweeping.sweep()
            clock.now += 2
    assert 4 <= len(attempts) <= 6 and len(caplog.records) == len(attempts)
    refused.clear()
    clock.now += 600
    sweeping.sweep()
    assert not missed()


def test_an_error_while_reading_an_end_does_not_delay_others(idle: EngineRig, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = end_unstored(idle, 2)
    read = selectors.get_transcript

    def broken(run_id: UUID) -> RunTranscript:
        if run_id == first:
            raise ValueError("a row that nobody foresaw")
        return read(run_id)

    monkeypatch.setattr(selectors, "get_transcript", broken)
    Reaper(lambda run_id: None).sweep()
    assert missed() == {first} != {second}
