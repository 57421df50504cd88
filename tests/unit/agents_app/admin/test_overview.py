"""The bars of the dashboard."""

from datetime import UTC, datetime, timedelta

from agents_app.admin.overview import _hours, _percentile

NOW = datetime(2026, 5, 1, 12, 34, tzinfo=UTC)
THIS_HOUR = NOW.replace(minute=0)


def test_there_are_24_hours_ending_with_this_one_whatever_happened():
    hours = _hours([], NOW)
    assert [hours[0].label, hours[-1].label, len(hours)] == ["13:00", "12:00", 24]
    assert all(hour.count == 0 and all(part.height == 0 for part in hour.parts) for hour in hours)


def test_an_hour_is_stacked_from_its_foot_in_percent_of_the_busiest():
    before = THIS_HOUR - timedelta(hours=1)
    rows = [(THIS_HOUR, "completed", 1), (THIS_HOUR, "timed_out", 1), (before, "completed", 2), (before, "queued", 2)]
    hours = _hours(rows, NOW)
    assert hours[-1].count == 2 and hours[-2].count == 4
    assert [(part.tone, part.top, part.height) for part in hours[-1].parts] == [
        ("success", 75.0, 25.0),
        ("danger", 50.0, 25.0),
        ("info", 50.0, 0.0),
    ]


def test_the_hour_a_day_ago_is_left_out():
    assert sum(hour.count for hour in _hours([(THIS_HOUR - timedelta(hours=24), "failed", 3)], NOW)) == 0


def test_percentiles_of_few_values():
    assert _percentile([], 50) is None
    assert _percentile([3.0], 95) == 3.0
    assert _percentile([1.0, 3.0], 50) == 2.0
