"""A gateway with its engine, and fake platforms for its channels."""

from collections.abc import Iterator

import pytest

from sessions_app.channels.connections import holder, keeper
from sessions_app.channels.connections import receiver as connections_receiver
from sessions_app.channels.outbound import rate_limiter
from tests.fakes.telegram import FakeTelegram
from tests.fakes.webhook_receiver import WebhookReceiver


@pytest.fixture
def platform() -> Iterator[FakeTelegram]:
    with FakeTelegram() as server:
        yield server


@pytest.fixture
def receiver(settings: object) -> Iterator[WebhookReceiver]:
    with WebhookReceiver() as server:
        yield server


@pytest.fixture
def most_in_a_minute(monkeypatch: pytest.MonkeyPatch) -> int:
    """Lower the limit of the message-loop guard, to save seconds."""
    monkeypatch.setattr(rate_limiter, "LOOP_MESSAGES", 4)
    return 4


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses between tries to connect, to save seconds."""
    monkeypatch.setattr(keeper, "_PASS_SECONDS", 0.02)
    monkeypatch.setattr(holder, "_CHECK_SECONDS", 0.02)
    monkeypatch.setattr(holder, "_FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(holder, "_LONGEST_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(connections_receiver, "_HEARTBEAT_SECONDS", 0.02)
