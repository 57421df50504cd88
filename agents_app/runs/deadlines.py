"""The columns of a child run's deadline, and the parts of its time at which warnings are sent."""

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

PARENT_AT, CHILD_AT, LAST_AT, END_AT = PARTS = (75, 80, 90, 100)  # percent


def started(seconds: int) -> dict[str, Any]:
    """Return the columns of a deadline that begins to count now."""
    return resumed(float(seconds), seconds)


def resumed(seconds_left: float | None, seconds: int) -> dict[str, Any]:
    """Return the columns of a deadline of which this much is left. seconds: the whole time."""
    if seconds_left is None:
        return {}
    deadline_at = timezone.now() + timedelta(seconds=max(seconds_left, 1.0))
    used = 100 * (1 - seconds_left / seconds)
    part = next((part for part in PARTS if part > used), END_AT)
    return {"deadline_at": deadline_at, "seconds_left": None, "alarm_at": alarm_of(deadline_at, seconds, part)}


def alarm_of(deadline_at: datetime, seconds: int, part: int) -> datetime:
    """Return the time at which this part of the deadline has passed."""
    return deadline_at - timedelta(seconds=seconds * (END_AT - part) / 100)


def part_of(deadline_at: datetime, seconds: int, alarm_at: datetime) -> int:
    """Return the part of the deadline that an alarm stands for."""
    used = END_AT - 100 * (deadline_at - alarm_at).total_seconds() / seconds
    return min(PARTS, key=lambda part: abs(part - used))
