"""A slow failure opens the breaker; a fast one and a success do not."""

import pytest

from audit_app.kernel.circuit_breaker import Breaker


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("took", "is_open"), [(0.1, False), (0.5, True), (2.0, True)])
def test_a_slow_failure_opens_it(took: float, is_open: bool) -> None:
    clock = Clock()
    breaker = Breaker(clock=clock)
    with pytest.raises(OSError, match="no answer"), breaker.watch():
        clock.now += took
        raise OSError("no answer")
    assert breaker.is_open == is_open
    clock.now += 5.0
    assert not breaker.is_open


def test_a_slow_success_does_not_open_it() -> None:
    clock = Clock()
    breaker = Breaker(clock=clock)
    with breaker.watch():
        clock.now += 9.0
    assert not breaker.is_open


def test_it_is_held_open_for_a_while() -> None:
    breaker = Breaker()
    with breaker.held_open():
        assert breaker.is_open
    assert not breaker.is_open
