"""The tally of stamped tokens that a viewer sees."""

import time

from benchmarks.viewers import Tally


def stamps(*milliseconds: int) -> bytes:
    return "".join(f"@{at} " for at in milliseconds).encode()


async def test_tokens_are_counted_with_their_lag() -> None:
    tally = Tally(2)
    now = int(tally.started_at * 1000) + 5
    tally.see(b'{"text": "' + stamps(now) + b'"}', (now + 10) / 1000)
    tally.see(stamps(now + 33), (now + 63) / 1000)
    assert [round(lag) for lag in tally.lags_ms] == [10, 30]
    assert tally.done.done()
    assert round(tally.sent_pace) == 30


async def test_tokens_that_are_shown_late_in_one_piece_have_no_higher_pace_than_the_model() -> None:
    tally = Tally(4)
    now = int(tally.started_at * 1000) + 5
    tally.see(stamps(now, now + 100, now + 200, now + 300), (now + 900) / 1000)
    assert round(tally.shown_pace) == round(tally.sent_pace) == 10


async def test_tokens_that_are_shown_slowly_have_the_pace_of_the_viewer() -> None:
    tally = Tally(2)
    now = int(tally.started_at * 1000) + 5
    tally.see(stamps(now), (now + 10) / 1000)
    tally.see(stamps(now + 100), (now + 510) / 1000)
    assert round(tally.shown_pace) == 2


async def test_a_token_that_is_shown_again_counts_once() -> None:
    tally = Tally(3)
    now = int(tally.started_at * 1000) + 5
    tally.see(stamps(now, now + 1), time.monotonic())
    tally.see(b"<p>" + stamps(now, now + 1) + b"</p>", time.monotonic())
    assert len(tally.lags_ms) == 2
    assert not tally.done.done()


async def test_tokens_sent_in_the_same_millisecond_all_count() -> None:
    tally = Tally(3)
    now = int(tally.started_at * 1000) + 5
    tally.see(stamps(now), time.monotonic())
    tally.see(stamps(now, now), time.monotonic())
    assert tally.done.done()


async def test_only_new_tokens_of_a_repeated_text_count() -> None:
    tally = Tally(3)
    now = int(tally.started_at * 1000) + 5
    tally.see(stamps(now, now + 1), time.monotonic())
    tally.see(b"<p>" + stamps(now, now + 1, now + 9) + b"</p> copy " + stamps(now, now + 1, now + 9), time.monotonic())
    assert tally.done.done()
    assert len(tally.lags_ms) == 3
    assert tally.sent_last_ms == now + 9


async def test_tokens_of_an_earlier_answer_do_not_count() -> None:
    tally = Tally(1)
    tally.see(stamps(int(tally.started_at * 1000) - 500), time.monotonic())
    assert tally.lags_ms == []
