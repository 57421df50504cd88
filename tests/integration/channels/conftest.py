"""A gateway with its engine, and fake platforms for its channels."""

from collections.abc import Iterator

import pytest

from tests.engine_rig import EngineRig
from tests.fakes.telegram import FakeTelegram
from tests.fakes.webhook_receiver import WebhookReceiver


@pytest.fixture
def rig(valkey: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineRig]:
    rig = EngineRig(monkeypatch).start()
    yield rig
    rig.stop()


@pytest.fixture
def platform() -> Iterator[FakeTelegram]:
    with FakeTelegram() as server:
        yield server


@pytest.fixture
def receiver(settings: object) -> Iterator[WebhookReceiver]:
    with WebhookReceiver() as server:
        yield server
