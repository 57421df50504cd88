"""What becomes of a message that could not be sent, and how fast a platform may be talked to."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from sessions_app.channels.base import Fate
from sessions_app.channels.messages import Capabilities
from sessions_app.channels.webhook import RETRIES
from sessions_app.delivery.deciding import Verdict, decide
from sessions_app.delivery.pacing import LOOP_MESSAGES, Pacing

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
CHAT = Capabilities()
HOOK = Capabilities(can_repeat=True, retries=RETRIES)
A, B = (UUID(int=1), "chat"), (UUID(int=1), "other")


def verdict(fate, capabilities=CHAT, *, tries=1, repeatable=False, wait=None, left=3600.0):
    return decide(
        fate, capabilities, tries=tries, is_repeatable=repeatable, retry_after_seconds=wait, now=NOW,
        expires_at=NOW + timedelta(seconds=left), chance=1.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (verdict(Fate.REFUSED), Verdict("failed")),
        (verdict(Fate.REFUSED, repeatable=True), Verdict("failed")),
        (verdict(Fate.UNKNOWN), Verdict("unknown")),
        (verdict(Fate.UNKNOWN, repeatable=True), Verdict("pending", 2.0)),
        (verdict(Fate.NOT_SENT), Verdict("pending", 2.0)),
        (verdict(Fate.NOT_SENT, tries=3), Verdict("pending", 8.0)),
        (verdict(Fate.NOT_SENT, tries=40), Verdict("pending", 60.0)),
        (verdict(Fate.NOT_SENT, wait=17.0), Verdict("pending", 17.0)),
        (verdict(Fate.NOT_SENT, left=1.0), Verdict("expired")),
        (verdict(Fate.NOT_SENT, wait=7200.0), Verdict("expired")),
        (verdict(Fate.NOT_SENT, HOOK, tries=1, left=1e6), Verdict("pending", 5.0)),
        (verdict(Fate.NOT_SENT, HOOK, tries=2, left=1e6), Verdict("pending", 300.0)),
        (verdict(Fate.NOT_SENT, HOOK, tries=2, wait=10.0, left=1e6), Verdict("pending", 300.0)),
        (verdict(Fate.NOT_SENT, HOOK, tries=9, left=1e6), Verdict("pending", 86_400.0)),
        (verdict(Fate.NOT_SENT, HOOK, tries=10, left=1e6), Verdict("failed")),
    ],
)
def test_only_what_cannot_arrive_twice_goes_again(found, expected):
    assert found == expected


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_messages_into_one_chat_keep_their_distance():
    clock = Clock()
    pacing, slow = Pacing(clock), Capabilities(chat_seconds=1.0)
    assert pacing.take(A, slow) == 0.0
    assert pacing.take(A, slow) == pytest.approx(1.0) and pacing.take(B, slow) == 0.0
    clock.now += 1.0
    assert pacing.take(A, slow) == 0.0


def test_an_account_sends_no_faster_than_its_rate():
    clock = Clock()
    pacing, ten = Pacing(clock), Capabilities(account_rate=10.0)
    waits = [pacing.take((UUID(int=1), str(number)), ten) for number in range(12)]
    assert waits[:10] == [0.0] * 10 and waits[10] == pytest.approx(0.1)
    clock.now += 0.11
    assert pacing.take(A, ten) == 0.0 and pacing.take(B, ten) > 0.0


def test_a_chat_on_hold_waits_and_others_do_not():
    pacing = Pacing(Clock())
    pacing.hold(A, 30.0)
    assert pacing.take(A, CHAT) == pytest.approx(30.0) and pacing.take(B, CHAT) == 0.0


def test_many_messages_in_a_minute_look_like_a_loop():
    clock = Clock()
    pacing = Pacing(clock)
    assert not any(pacing.is_looping(A) for _ in range(LOOP_MESSAGES))
    assert pacing.is_looping(A) and not pacing.is_looping(B)
    clock.now += 61.0
    assert not pacing.is_looping(A)
