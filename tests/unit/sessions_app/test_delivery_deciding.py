"""The retry policy of deliveries, and the rate limiter of platforms."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from sessions_app.channels.adapters.webhook import RETRIES
from sessions_app.channels.base import SendCertainty
from sessions_app.channels.messages import Capabilities
from sessions_app.channels.outbound.rate_limiter import LOOP_MESSAGES, RateLimiter
from sessions_app.channels.outbound.retry_policy import FailedTry, Verdict, decide, may_repeat

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
CHAT = Capabilities()
HOOK = Capabilities(can_repeat=True, retries=RETRIES)
A, B = (UUID(int=1), "chat"), (UUID(int=1), "other")


def verdict(certainty, capabilities=CHAT, *, tries=1, repeatable=False, wait=None, left=3600.0):
    failed = FailedTry(certainty, tries, NOW, NOW + timedelta(seconds=left), repeatable, wait)
    return decide(failed, capabilities, chance=1.0)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (verdict(SendCertainty.REFUSED), Verdict("failed")),
        (verdict(SendCertainty.REFUSED, repeatable=True), Verdict("failed")),
        (verdict(SendCertainty.UNKNOWN), Verdict("unknown")),
        (verdict(SendCertainty.UNKNOWN, repeatable=True), Verdict("pending", 2.0)),
        (verdict(SendCertainty.NOT_SENT), Verdict("pending", 2.0)),
        (verdict(SendCertainty.NOT_SENT, tries=3), Verdict("pending", 8.0)),
        (verdict(SendCertainty.NOT_SENT, tries=40), Verdict("pending", 60.0)),
        (verdict(SendCertainty.NOT_SENT, wait=17.0), Verdict("pending", 17.0)),
        (verdict(SendCertainty.NOT_SENT, wait=0.0), Verdict("pending", 2.0)),
        (verdict(SendCertainty.NOT_SENT, left=1.0), Verdict("expired")),
        (verdict(SendCertainty.NOT_SENT, wait=7200.0), Verdict("expired")),
        (verdict(SendCertainty.NOT_SENT, HOOK, tries=1, left=1e6), Verdict("pending", 5.0)),
        (verdict(SendCertainty.NOT_SENT, HOOK, tries=2, left=1e6), Verdict("pending", 300.0)),
        (verdict(SendCertainty.NOT_SENT, HOOK, tries=2, wait=10.0, left=1e6), Verdict("pending", 300.0)),
        (verdict(SendCertainty.NOT_SENT, HOOK, tries=9, left=1e6), Verdict("pending", 86_400.0)),
        (verdict(SendCertainty.NOT_SENT, HOOK, tries=10, left=1e6), Verdict("failed")),
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
    limiter, slow = RateLimiter(clock), Capabilities(chat_seconds=1.0)
    assert limiter.take(A, slow) == 0.0
    assert limiter.take(A, slow) == pytest.approx(1.0) and limiter.take(B, slow) == 0.0
    clock.now += 1.0
    assert limiter.take(A, slow) == 0.0


def test_an_account_sends_no_faster_than_its_rate():
    clock = Clock()
    limiter, ten = RateLimiter(clock), Capabilities(account_rate=10.0)
    waits = [limiter.take((UUID(int=1), str(number)), ten) for number in range(12)]
    assert waits[:10] == [0.0] * 10 and waits[10] == pytest.approx(0.1)
    clock.now += 0.11
    assert limiter.take(A, ten) == 0.0 and limiter.take(B, ten) > 0.0


def test_a_chat_on_hold_waits_and_others_do_not():
    limiter = RateLimiter(Clock())
    limiter.hold(A, 30.0)
    assert limiter.take(A, CHAT) == pytest.approx(30.0) and limiter.take(B, CHAT) == 0.0


def test_waits_of_several_chats_hold_the_account():
    clock = Clock()
    limiter, account = RateLimiter(clock), UUID(int=1)
    for number in range(2):
        limiter.hold((account, str(number)), 30.0)
    assert limiter.account_wait(account, CHAT) == 0.0 and limiter.take(A, CHAT) == 0.0
    limiter.hold((account, "third"), 30.0)
    assert limiter.account_wait(account, CHAT) == pytest.approx(30.0) and limiter.take(B, CHAT) > 29.0
    assert limiter.take((UUID(int=2), "chat"), CHAT) == 0.0
    clock.now += 31.0
    assert limiter.take(B, CHAT) == 0.0


def test_a_platform_may_slow_the_whole_account():
    limiter = RateLimiter(Clock())
    limiter.hold(A, 5.0, whole_account=True)
    assert limiter.take(B, CHAT) == pytest.approx(5.0)


def test_no_platform_silences_an_account_for_longer_than_an_hour():
    clock = Clock()
    limiter = RateLimiter(clock)
    limiter.hold(A, 999_999_999.0, whole_account=True)
    clock.now += 3600.0
    assert limiter.take(A, CHAT) == 0.0, (
        "the platform is called again: its wait may have been a mistake that is corrected by now"
    )


def test_previews_leave_half_of_the_rate_to_messages():
    clock = Clock()
    limiter, ten = RateLimiter(clock), Capabilities(account_rate=10.0, drafts="native", chat_seconds=1.0)
    taken = [limiter.take_preview((UUID(int=1), str(number)), ten) for number in range(7)]
    assert taken[:5] == [0.0] * 5 and taken[5] > 0.0
    assert limiter.take((UUID(int=1), "0"), ten) == 0.0, "a preview that vanishes is no message of its chat"
    limiter.hold((UUID(int=1), "1"), 9.0)
    clock.now += 1.0
    assert limiter.take_preview((UUID(int=1), "1"), ten) == pytest.approx(8.0)


@pytest.mark.parametrize(
    ("capabilities", "shown_id", "filename", "may"),
    [
        (CHAT, "", "", False),
        (HOOK, "", "", True),
        (Capabilities(edit_sent=True), "7", "", True),
        (Capabilities(edit_sent=True), "7", "answer.md", False),
        (Capabilities(edit_sent=True), "", "", False),
        (CHAT, "7", "", False),
    ],
)
def test_what_may_be_sent_twice(capabilities, shown_id, filename, may):
    assert may_repeat(capabilities, shown_id=shown_id, filename=filename) is may


def test_many_messages_in_a_minute_look_like_a_loop():
    clock = Clock()
    limiter = RateLimiter(clock)
    assert not any(limiter.is_looping(A) for _ in range(LOOP_MESSAGES))
    assert limiter.is_looping(A) and not limiter.is_looping(B)
    clock.now += 61.0
    assert not limiter.is_looping(A)
