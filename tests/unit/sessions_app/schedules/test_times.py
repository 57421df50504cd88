"""The times of schedules: time zones, changes of the clocks, missed times and unreadable expressions."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit_app.kernel.errors import InvalidInput
from sessions_app.schedules.times import MOST_MISSED, Rhythm

START = datetime(2026, 1, 1, tzinfo=UTC)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "zone", "after", "times"),
    [
        ("0 9 * * 1-5", "Europe/Berlin", "2026-01-02T12:00", ["2026-01-05T08:00", "2026-01-06T08:00"]),
        # The clocks skip 2:30 on the 29th of March, and repeat it on the 25th of October.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T03:00", ["2026-03-29T01:00", "2026-03-30T00:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T03:00", ["2026-10-25T00:30", "2026-10-26T01:30"]),
        ("0 0 1 1 *", "Pacific/Kiritimati", "2026-06-01T00:00", ["2026-12-31T10:00"]),
        ("0 0 29 2 *", "UTC", "2026-06-01T00:00", ["2028-02-29T00:00"]),
    ],
)
def test_times_of_a_zone(cron: str, zone: str, after: str, times: list[str]) -> None:
    assert Rhythm(cron, zone).upcoming(utc(after), len(times)) == [utc(time) for time in times]


@pytest.mark.parametrize(
    ("cron", "zone", "code"),
    [
        ("0 9 * *", "UTC", "bad_cron"),
        ("0 9 * * * *", "UTC", "bad_cron"),
        ("61 * * * *", "UTC", "bad_cron"),
        ("x * * * *", "UTC", "bad_cron"),
        ("0 0 31 2 *", "UTC", "bad_cron"),
        ("* * * * *", "Europe/Atlantis", "bad_time_zone"),
        ("* * * * *", "../etc/passwd", "bad_time_zone"),
    ],
)
def test_what_cannot_be_read_is_refused(cron: str, zone: str, code: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Rhythm(cron, zone)
    assert refusal.value.code == code


def test_due_times_include_the_first_and_the_present_minute() -> None:
    rhythm = Rhythm("*/5 * * * *", "Asia/Kathmandu")
    assert rhythm.due(START, START) == [START]
    assert rhythm.due(START, START + timedelta(minutes=5)) == [START, START + timedelta(minutes=5)]


def test_at_most_the_newest_missed_times_are_kept() -> None:
    due = Rhythm("* * * * *").due(START, START + timedelta(days=400))
    assert len(due) == MOST_MISSED and due[-1] == START + timedelta(days=400)


@settings(max_examples=15)
@given(st.sampled_from(["*/7 * * * *", "0 */3 * * *", "15 6 * * 1"]), st.integers(0, 20_000))
def test_due_times_are_those_that_come_after_each_other(cron: str, minutes: int) -> None:
    rhythm, now = Rhythm(cron, "America/New_York"), START + timedelta(minutes=minutes)
    first = rhythm.next_after(START - timedelta(minutes=1))
    assert first is not None
    walked = [first]
    while (following := rhythm.next_after(walked[-1])) and following <= now:
        walked.append(following)
    assert rhythm.due(first, now) == walked[-MOST_MISSED:]
