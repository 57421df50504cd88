"""The rate limiter of platforms."""

from uuid import UUID

import pytest

from sessions_app.channels.outbound.rate_limiter import LOOP_MESSAGES, RateLimiter
from sessions_app.platforms.messages import Capabilities

CHAT = Capabilities()
A, B = (UUID(int=1), "chat"), (UUID(int=1), "other")


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


def test_many_messages_in_a_minute_look_like_a_loop():
    clock = Clock()
    limiter = RateLimiter(clock)
    assert not any(limiter.is_looping(A) for _ in range(LOOP_MESSAGES))
    assert limiter.is_looping(A) and not limiter.is_looping(B)
    clock.now += 61.0
    assert not limiter.is_looping(A)
