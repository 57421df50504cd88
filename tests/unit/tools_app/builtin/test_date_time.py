"""`date_time`: zones, moments and differences."""

from datetime import UTC, datetime

import pytest

from tools_app.builtin import date_time
from tools_app.types import ToolError


@pytest.fixture
def ask(monkeypatch):
    """Call the tool at noon UTC of 21 November 2026."""
    monkeypatch.setattr(date_time, "_now", lambda: datetime(2026, 11, 21, 12, 0, tzinfo=UTC))
    return lambda **arguments: date_time.DateTime().run(arguments, None)


def test_now_is_in_utc_unless_a_zone_is_named(ask):
    assert ask()["iso"] == "2026-11-21T12:00:00+00:00"
    assert ask(timezone="Asia/Tokyo")["iso"] == "2026-11-21T21:00:00+09:00"
    assert ask(timezone="Asia/Tokyo")["weekday"] == "Saturday"


def test_a_time_is_converted_between_zones(ask):
    answer = ask(operation="convert", time="2026-07-01T09:00", timezone="America/New_York", to_timezone="Asia/Kolkata")
    assert answer["iso"] == "2026-07-01T18:30:00+05:30"
    assert answer["from"]["iso"] == "2026-07-01T09:00:00-04:00"


def test_a_time_with_an_offset_keeps_it(ask):
    answer = ask(operation="convert", time="2026-07-01T09:00+02:00", timezone="Asia/Tokyo", to_timezone="UTC")
    assert answer["time"] == "07:00:00"


def test_a_difference_counts_real_time_across_a_change_of_clocks(ask):
    answer = ask(operation="difference", time="2026-03-28T12:00", end_time="2026-03-29T12:00", timezone="Europe/Berlin")
    assert answer["seconds"] == 23 * 3600
    assert answer["text"] == "23 hours"


def test_a_difference_to_an_earlier_time_is_negative(ask):
    answer = ask(operation="difference", time="2026-11-22T12:00Z")
    assert (answer["seconds"], answer["text"]) == (-86400, "1 day")


@pytest.mark.parametrize(("time", "note"), [("2026-03-29T02:30", "skip"), ("2026-10-25T02:30", "twice")])
def test_a_local_time_that_the_clocks_skip_or_repeat_is_marked(ask, time, note):
    answer = ask(operation="convert", time=time, timezone="Europe/Berlin", to_timezone="UTC")
    assert note in answer["from"]["note"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [("Tokyo", "Asia/Tokyo"), ("New York", "America/New_York"), ("europe/paris", "Europe/Paris"), ("Asia", "Asia/")],
)
def test_an_unknown_zone_is_answered_with_the_likely_one(ask, name, hint):
    with pytest.raises(ToolError, match=f"Did you mean.*{hint}"):
        ask(timezone=name)


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../../etc/passwd", "a\0b", "é", "x" * 64])
def test_a_zone_is_never_a_path(ask, name):
    with pytest.raises(ToolError, match="no time zone"):
        ask(timezone=name)


def test_missing_zone_data_is_reported_to_the_operator(ask, monkeypatch):
    monkeypatch.setattr(date_time, "available_timezones", set)
    with pytest.raises(ToolError, match="tzdata"):
        ask(timezone="Nowhere/Else")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"operation": "convert", "time": "2026-01-01T00:00Z"}, "to_timezone is missing"),
        ({"operation": "difference", "time": "tomorrow"}, "not an ISO 8601 time"),
        (
            {"operation": "convert", "time": "0001-01-01", "timezone": "Asia/Tokyo", "to_timezone": "UTC"},
            "out of range",
        ),
    ],
)
def test_an_invalid_request_is_explained(ask, arguments, reason):
    with pytest.raises(ToolError, match=reason):
        ask(**arguments)
