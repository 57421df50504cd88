from agents_app.runs.retry_policy import retry_delay
from agents_app.types import Limits

LIMITS = Limits(tries=5, retry_first_seconds=2, retry_max_seconds=10)


def delay(tries: int, *, retryable: bool = True, after: float | None = None) -> float | None:
    return retry_delay(LIMITS, tries, retryable=retryable, retry_after_seconds=after)


def test_the_delay_doubles_within_its_jitter_up_to_the_longest() -> None:
    for tries, expected in [(1, 2), (2, 4), (3, 8), (4, 10)]:
        assert expected * 0.9 <= (delay(tries) or 0) <= expected * 1.1


def test_the_delay_stays_the_longest_however_often_it_was_tried() -> None:
    limits = Limits(tries=5000, retry_first_seconds=2, retry_max_seconds=10)
    assert (retry_delay(limits, 4999, retryable=True, retry_after_seconds=None) or 0) <= 11


def test_gives_up_after_the_allowed_tries() -> None:
    assert delay(5) is None


def test_an_error_that_cannot_go_away_is_not_retried() -> None:
    assert delay(1, retryable=False) is None


def test_a_longer_retry_after_is_honoured_and_a_shorter_one_is_not() -> None:
    assert delay(1, after=20) == 20
    assert (delay(1, after=0.1) or 0) >= 1.8
