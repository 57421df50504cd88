"""Few deliveries have no delay, many are spaced."""

from audit_app.follow.stream_reader import Pacer


def delays(gap: float, count: int) -> list[float]:
    now = [100.0]
    pacer = Pacer(0.02, 3, clock=lambda: now[0])
    result = []
    for _ in range(count):
        delay = pacer.delay()
        result.append(round(delay, 3))
        now[0] += delay + gap
    return result


def test_a_burst_goes_out_at_once_before_the_first_delay():
    assert delays(0, 3) == [0.0, 0.0, 0.02]


def test_many_deliveries_are_spaced():
    assert delays(0, 8)[4:] == [0.02] * 4


def test_few_deliveries_are_never_delayed():
    assert delays(0.03, 50) == [0.0] * 50
